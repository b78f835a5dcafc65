"""Models of providers with an API of their own, by the direct layer of pydantic-ai and the providers' own libraries.

All of it needs the extra `models`, and is imported when such a model is opened.
"""
