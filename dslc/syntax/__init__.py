"""Syntax: text to sections, tokens and a tree; lark is the parser."""
