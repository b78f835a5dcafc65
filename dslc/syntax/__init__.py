"""Text to tree: pieces, tokens, and lark's parser."""
