"""The language of a question, by its script and its commonest words.

Questions have a few words, of which a statistical detector makes little. So this one names a language only on evidence:
letters that one language is written in, or at least one of its commonest words and more of them than of any other
language. Everything else has no language and appears in no table by language.
"""

from __future__ import annotations

import re

SCRIPTS = {
    "ja": r"[\u3040-\u30ff]",  # kana; before Chinese, since Japanese has its characters, too
    "ko": r"[\uac00-\ud7af]",
    "zh": r"[\u4e00-\u9fff]",
    "uk": r"[іїєґІЇЄҐ]",
    "ru": r"[\u0400-\u04ff]",
    "el": r"[\u0370-\u03ff]",
    "he": r"[\u0590-\u05ff]",
    "fa": r"[پچژگ]",
    "ar": r"[\u0600-\u06ff]",
    "hi": r"[\u0900-\u097f]",
    "bn": r"[\u0980-\u09ff]",
    "ta": r"[\u0b80-\u0bff]",
    "th": r"[\u0e00-\u0e7f]",
}
"""Patterns of letters, in the order in which they are looked for. Keys are codes of ISO 639-1."""
WORDS = {
    "en": "the is are what how this in of and which does do who where you it there many picture image",
    "de": "der die das ist sind was wie ein eine und welche welcher wer wo auf dem den nicht sie ich bild",
    "fr": "le la les est sont que quel quelle combien un une et dans des du qui où sur il elle cette image",
    "es": "el la los las es son qué cuántos cuál cuáles un una y en del quién dónde hay esta imagen",
    "pt": "o os as é são que quantos qual quais um uma e em do da quem onde há esta imagem não",
    "it": "il lo gli è sono che cosa quanti quale quali un una e nel della chi dove c'è questa immagine",
    "nl": "de het een is zijn wat hoe welke en van op wie waar niet er hoeveel deze afbeelding",
    "pl": "jest są co jak ile i w na kto gdzie nie to który która ten ta obraz obrazku",
    "tr": "bu ne nasıl kaç ve bir hangi kim nerede var mı mi resimde görüntü",
    "vi": "là gì có bao nhiêu trong này của và ở đâu ai hình ảnh không",
    "id": "apa ini yang di dan berapa siapa mana ada gambar itu dengan",
}
"""The commonest words of questions, for languages in Latin letters."""
NAMES = {
    "ar": "Arabic",
    "bn": "Bengali",
    "de": "German",
    "el": "Greek",
    "en": "English",
    "es": "Spanish",
    "fa": "Persian",
    "fr": "French",
    "he": "Hebrew",
    "hi": "Hindi",
    "id": "Indonesian",
    "it": "Italian",
    "ja": "Japanese",
    "ko": "Korean",
    "nl": "Dutch",
    "pl": "Polish",
    "pt": "Portuguese",
    "ru": "Russian",
    "ta": "Tamil",
    "th": "Thai",
    "tr": "Turkish",
    "uk": "Ukrainian",
    "vi": "Vietnamese",
    "zh": "Chinese",
}

_WORD_SETS = {code: frozenset(words.split()) for code, words in WORDS.items()}


def language_of(question: str) -> str:
    """Return the code of a question's language (ISO 639-1), or an empty string if nothing shows it.

    Example:
        >>> language_of("Wie viele Vögel sind auf dem Bild?"), language_of("图中有几只鸟？"), language_of("7 + 5")
        ('de', 'zh', '')
    """
    for code, pattern in SCRIPTS.items():
        if re.search(pattern, question):
            return code
    words = re.findall(r"[^\W\d_]+(?:'[^\W\d_]+)?", question.casefold())
    counts: dict[str, int] = {}
    for code, common_words in _WORD_SETS.items():
        counts[code] = sum(word in common_words for word in words)
    best, second = sorted(counts, key=lambda code: -counts[code])[:2]
    is_clear = counts[best] > counts[second]
    return best if is_clear else ""
