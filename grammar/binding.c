// Python binding of the tree-sitter parser. `grammar.language` imports it.
#include <Python.h>

typedef struct TSLanguage TSLanguage;

const TSLanguage *tree_sitter_symbiont(void);

static PyObject *language(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(arguments)) {
    return PyCapsule_New((void *)tree_sitter_symbiont(), "tree_sitter.Language", NULL);
}

static PyMethodDef methods[] = {
    {"language", language, METH_NOARGS, "The tree-sitter language, as `tree_sitter.Language` takes it."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef_Slot slots[] = {
#ifdef Py_GIL_DISABLED
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef module = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "_tree_sitter",
    .m_size = 0,
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__tree_sitter(void) { return PyModuleDef_Init(&module); }
