def speakable(text: str, *, language: str = "en") -> str:
    return text
