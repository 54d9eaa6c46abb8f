"""One sample on the page: picture, prompt as sent, reply as received, how it was read, and the gold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from snellen.metrics.declaration import declared
from snellen.protocols.prediction import holds_shares
from snellen.reasons import word_reason
from snellen.records import Answer, Exchange, ImagePart, ImageRef, Message, Prediction, Score, Step, Variant
from snellen.report.formatting import DASH, decimal_text, metric_title
from snellen.report.gallery import Gallery, GalleryEntry, Outcome, outcome_of
from snellen.report.markup import disclosure, esc
from snellen.report.svg import shorten

LONGEST = 4000
"""Longest text that a page shows, in characters."""
SIGNS: dict[Outcome, str] = {"right": "✓", "wrong": "✗", "unparsed": "?", "error": "!", "scored": "·", "no gold": "·"}


def sample_card(entry: GalleryEntry, gallery: Gallery, label: str, numbers: Mapping[str, int]) -> str:
    """An HTML article; `numbers` gives each picture's index in the page's list."""
    exchanges = gallery.exchanges.get((entry.model, entry.exchange_key), [])
    pictures = "".join(_picture(image, entry, gallery, numbers) for image in entry.sample.images)
    talk = "".join(map(talk_html, exchanges)) or '<p class="none">The exchange is no longer in the journal.</p>'
    turn = f" · round {entry.turn + 1} of {len(entry.sample.turns)}" if entry.sample.turns else ""
    return (
        f'<article class="entry" data-model="{entry.model}" data-benchmark="{esc(entry.sample.benchmark)}" '
        f'data-protocol="{esc(entry.protocol)}" data-outcome="{esc(entry.outcome)}">'
        f'<header><span class="badge {entry.outcome.replace(" ", "-")}">{SIGNS[entry.outcome]} {entry.outcome}</span>'
        f" <b>{esc(entry.sample.benchmark)}</b> · <bdi>{esc(label)}</bdi> · <bdi>{esc(entry.protocol)}</bdi>{turn}"
        f" · <code>{esc(entry.sample.id)}</code>{_tags(entry)}</header>\n"
        f'<div class="columns"><div class="pictures">{pictures}</div>'
        f'<div class="talk">{talk}</div>\n<div class="verdict">{_verdict(entry)}</div></div></article>'
    )


def _tags(entry: GalleryEntry) -> str:
    return "".join(f' <span class="tag">{esc(tag)}={esc(value)}</span>' for tag, value in entry.sample.tags.items())


def _picture(image: ImageRef, entry: GalleryEntry, gallery: Gallery, numbers: Mapping[str, int]) -> str:
    if image.digest in numbers:
        alt = f"Picture of {entry.sample.id}, {image.width} by {image.height} pixels"
        return (
            f'<img data-image="{numbers[image.digest]}" alt="{esc(alt)}" width="{image.width}" height="{image.height}">'
        )
    reason = "missing from the benchmark's folder" if image.digest in gallery.missing else "left out: the page is full"
    return f'<p class="none">picture {esc(image.digest[:12])} {reason}</p>'


def talk_html(exchange: Exchange) -> str:
    """The conversation as sent, then the response; what other models were sent is folded."""
    request, response = exchange.request, exchange.response
    sent = [_message(m, i == len(request.messages) - 1) for i, m in enumerate(request.messages)]
    turns = [disclosure("as sent", "".join(sent))] if request.role else sent
    if step := request.variant.step:
        turns.insert(0, f'<p class="step">{esc(_place(step, request.role))}</p>')
    if response.error:
        attempts = f" after {response.error.attempts} attempts" if response.error.attempts > 1 else ""
        turns.append(_said("error", esc(f"{response.error.kind}{attempts}: ") + long_text(response.error.detail)))
    elif response.text is not None:
        turns.append(_said("reply", long_text(response.text) or '<span class="none">(empty)</span>'))
    facts = [
        *([f"finish: {response.finish}"] if response.finish else []),
        *([f"{response.seconds:.2f} s"] if response.seconds is not None else []),
        *(["answered by an earlier response to the same request"] if exchange.reused else []),
        *response.notes,
    ]
    return "".join(turns) + (f'<p class="facts">{esc("; ".join(facts))}</p>' if facts else "")


def _place(step: Step, role: str) -> str:
    """`round 2 · sub-questions · questioner`"""
    return " · ".join(filter(None, (f"round {step.round}" if step.round else "", step.purpose, role)))


def _message(message: Message, is_last: bool) -> str:
    content = "".join(
        '<span class="tag">picture</span> ' if isinstance(part, ImagePart) else long_text(part.text)
        for part in message.content
    )
    return _said("assistant, to be continued" if is_last and message.role == "assistant" else message.role, content)


def _said(role: str, inner: str) -> str:
    return f'<div class="said {role.split(",")[0]}"><span class="role">{role}</span><p dir="auto">{inner}</p></div>'


def long_text(text: str) -> str:
    """Escaped text, cut where it is longer than `LONGEST`."""
    if len(text) <= LONGEST:
        return esc(text)
    return f'{esc(text[:LONGEST])}<span class="none"> … and {len(text) - LONGEST:,} more characters</span>'


def _verdict(entry: GalleryEntry) -> str:
    options = entry.sample.rounds[entry.turn].options
    table = options_table(entry.shown_prediction, entry.answer, options) if options else ""
    facts = [("read as", reading_html(entry.shown_prediction, options)), ("gold", gold_html(entry.answer, options))]
    if len(entry.predictions) > 1:
        facts.append((f"{len(entry.predictions)} presentations", _presentations(entry, options)))
    facts.append(("scores", scores_html(entry.scores)))
    return table + "<dl>" + "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in facts) + "</dl>"


def scores_html(scores: Sequence[Score]) -> str:
    """The metrics of a question with their values, or why they have none."""
    shown = "; ".join(
        f"{metric_title(score.metric)} {DASH if score.value is None else f'{score.value:.3g}'}"
        + (f" ({word_reason(score.reason, score.detail)})" if score.reason else "")
        for score in scores
        if not declared(score.metric).secondary_to
    )
    return esc(shown)


def options_table(prediction: Prediction, answer: Answer | None, options: Sequence[str]) -> str:
    """Options in the order shown, with the choice, the gold and, under likelihood, the scores."""
    variant = prediction.variant
    order = variant.order or tuple(range(len(options)))
    gold = answer.options if answer else ()
    scores = prediction.scores
    likely = _likelihoods(scores, holds_shares(prediction)) if len(scores) == len(options) else {}
    rows = []
    for place, option in enumerate(order):
        label = variant.labels[place] if place < len(variant.labels) else ""
        chosen = option == prediction.choice
        signs = [*(["chosen"] if chosen else []), *(["correct"] if option in gold else [])]
        kind = f' class="{" ".join(signs)}"' if signs else ""
        rows.append(
            f'<tr{kind}><td class="place">{esc(label)}</td><td dir="auto">{long_text(options[option])}</td>'
            f"{likely.get(option, '')}<td>{', '.join(signs)}</td></tr>"
        )
    head = '<th scope="col">log-likelihood (nats)</th>' if likely else ""
    return (
        '<table class="options"><thead><tr><th scope="col"><span class="hide">label</span></th>'
        f'<th scope="col">option</th>{head}<th scope="col"><span class="hide">verdict</span></th></tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def _likelihoods(values: Sequence[float], are_shares: bool) -> dict[int, str]:
    """One cell per option: a bar for its share among the options, and the value."""
    finite = [value for value in values if math.isfinite(value)]
    best = max(finite, default=0.0)
    weights = [math.exp(value - best) if math.isfinite(value) else 0.0 for value in values]
    weights = list(values) if are_shares else weights
    total = math.fsum(weights) or 1.0
    return {
        i: f'<td class="num"><svg class="bar" viewBox="0 0 60 8" role="img" aria-label="share {weight / total:.2f}">'
        f'<rect class="rail" width="60" height="8"/><rect class="fill" width="{60 * weight / total:.1f}" height="8"/>'
        f"</svg> {decimal_text(value, 3) if math.isfinite(value) else value}</td>"
        for i, (value, weight) in enumerate(zip(values, weights, strict=True))
    }


def reading_html(prediction: Prediction, options: Sequence[str]) -> str:
    """What a response was read as, and by what."""
    if prediction.error:
        return "nothing: no answer came"
    if prediction.text is not None:
        return "text, as it came"
    if prediction.choice is None:
        return f"nothing ({esc(word_reason(prediction.reason, prediction.detail))})"
    option = _option(prediction.choice, options, prediction.variant)
    format_note = ", in the form asked for" if prediction.follows_format else ""
    return f"{option} <small>by {esc(prediction.extraction_method or '')}{format_note}</small>"


def _option(choice: int, options: Sequence[str], variant: Variant) -> str:
    order = variant.order or tuple(range(len(options)))
    place = order.index(choice)
    label = f"({variant.labels[place]}) " if place < len(variant.labels) else ""
    return f"{esc(label)}<bdi>{long_text(options[choice])}</bdi>"


def gold_html(answer: Answer | None, options: Sequence[str]) -> str:
    """The right options, or the reference texts."""
    if answer is None:
        return '<span class="none">hidden</span>'
    if answer.options:
        return " or ".join(f"<bdi>{long_text(options[i])}</bdi>" for i in answer.options)
    return " or ".join(f"“<bdi>{long_text(text)}</bdi>”" for text in answer.texts[:6]) + (
        " …" if len(answer.texts) > 6 else ""
    )


def _presentations(entry: GalleryEntry, options: Sequence[str]) -> str:
    """How each presentation was read; the one shown in full is underlined."""
    chips = []
    for prediction in entry.predictions:
        outcome = outcome_of(prediction, entry.answer, None, is_verdict=False)
        if prediction.choice is not None:
            reading = _option(prediction.choice, options, prediction.variant)
        else:
            text = prediction.reason or "" if prediction.text is None else shorten(prediction.text, 60)
            reading = f"<bdi>{esc(text)}</bdi>"
        current = ' aria-current="true"' if prediction is entry.shown_prediction else ""
        variant = prediction.variant
        tip = f"presentation {variant.test + 1}, template {variant.template}"
        chips.append(
            f'<li class="{outcome.replace(" ", "-")}"{current} title="{esc(tip)}">{SIGNS[outcome]} {reading}</li>'
        )
    return f'<ol class="chips">{"".join(chips)}</ol>'
