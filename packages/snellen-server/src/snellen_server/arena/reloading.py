"""Reread the file that names the arena's models, so that these can change while the server runs."""

from __future__ import annotations

from snellen import DataError
from snellen_server.arena.running import arena_of
from snellen_server.arena.settings import ARENA, read_settings
from snellen_server.hosting.monitoring import LOGGER
from snellen_server.hosting.services import Services

REREAD_SECONDS = 10.0
"""Pause between two looks at the file."""


async def reread_models(services: Services) -> None:
    """Use the models in the file of settings if the file has changed.

    If the file has an error, the error is logged and the models stay as they are. Changes of
    settings other than `models` take effect only after a restart.
    """
    file = services.configuration.settings_files.get(ARENA)
    if file is None or ARENA not in services.held:  # the server is starting
        return
    arena = arena_of(services)
    try:
        changed_at = file.stat().st_mtime_ns
    except OSError:  # an editor may be replacing it
        return
    if changed_at == arena.file_changed_at:
        return
    arena.file_changed_at = changed_at
    try:
        settings = read_settings(file)
    except DataError as error:
        LOGGER.error("the arena's models stay as they are", extra={"facts": {"error": str(error)}})
        return
    if settings.models == arena.settings.models:
        return
    arena.change_models(settings.models)
    names = [model.name for model in settings.models]
    LOGGER.info("the arena's models have changed", extra={"facts": {"models": names}})
