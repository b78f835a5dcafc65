"""A file is one source, named by its first path, whatever links lead to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dslc.language_server.disk import scan_folders
from dslc.language_server.project import EditorProject
from dslc.language_server.uris import uri_of
from dslc.vocabulary import Vocabulary
from tests.dslc.catalogs import CATALOG


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a program and a link to it that comes first."""
    (tmp_path / "z.symbiont").write_text("memory m { pth }\n")
    (tmp_path / "a.symbiont").symlink_to("z.symbiont")
    return tmp_path


def _look(project: EditorProject) -> None:
    for _ in project.take(scan_folders(project.folders, project.stamps)):
        pass


def _project(folder: Path) -> EditorProject:
    project = EditorProject(Vocabulary(CATALOG))
    project.folders = [str(folder)]
    _look(project)
    return project


def test_a_file_has_its_own_name_after_its_link_was_removed(folder: Path) -> None:
    project = _project(folder)
    link, target = str(folder / "a.symbiont"), str(folder / "z.symbiont")
    assert project.diagnostics(link)
    (folder / "a.symbiont").unlink()
    _look(project)
    assert project.name_of(uri_of(target)) == target
    assert project.diagnostics(link) == []
    assert project.diagnostics(target)


def test_an_open_file_keeps_its_name_until_it_is_closed(folder: Path) -> None:
    project = _project(folder)
    link, target = str(folder / "a.symbiont"), str(folder / "z.symbiont")
    project.open(uri_of(target), 1, "memory m { path }\n")
    (folder / "a.symbiont").unlink()
    _look(project)
    assert project.uri_of(project.name_of(uri_of(target))) == uri_of(target)
    assert project.close(uri_of(target)) == target
    project.put_file(target, (folder / "z.symbiont").read_bytes())
    assert project.name_of(uri_of(target)) == target
    assert project.diagnostics(link) == []
    assert project.diagnostics(target)
