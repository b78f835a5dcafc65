"""Reading of a model's reply: messages and tool calls from whatever text it wrote."""
