"""The feature `pictures`: accept images that people upload, and serve them by their digests."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from fastapi import APIRouter, Depends, HTTPException, UploadFile
from fastapi.responses import Response
from pydantic import BaseModel
from sqlalchemy import (
    Column,
    Connection,
    ForeignKey,
    Integer,
    String,
    Table,
    delete,
    insert,
    or_,
    select,
)
from sqlalchemy.exc import IntegrityError

from snellen.plugin_api import ImageRef
from snellen_server.hosting.callers import Caller, CallerDep, Limited, ServicesDep
from snellen_server.hosting.configuration import Configuration
from snellen_server.hosting.contributions import Contribution, PictureStore, StoredImage
from snellen_server.hosting.features import Feature, Job, PersonalData
from snellen_server.hosting.limits import RateLimit
from snellen_server.hosting.services import Services
from snellen_server.hosting.tables import METADATA, BigId, UtcDateTime, utc_now

router = APIRouter()
UPLOAD = "/api/v1/images"
MULTIPART_BYTES = 16 * 1024
"""What a form adds to the file in it."""

picture = Table(
    "picture",
    METADATA,
    Column("digest", String(64), primary_key=True),
    Column("media_type", String(20), nullable=False),
    Column("width", Integer, nullable=False),
    Column("height", Integer, nullable=False),
    Column("bytes", Integer, nullable=False),
    Column("created", UtcDateTime(), nullable=False, index=True),
)
picture_sending = Table(
    "picture_sending",
    METADATA,
    Column("id", BigId, primary_key=True, autoincrement=True),
    Column("digest", ForeignKey("picture.digest", ondelete="CASCADE"), nullable=False, index=True),
    Column("account_id", String(24), index=True),
    Column("visitor", String(24), index=True),
    Column("sent", UtcDateTime(), nullable=False, index=True),
)
_OPERATORS = picture_sending.c.account_id.is_(None) & picture_sending.c.visitor.is_(None)
"""Condition for images without a sender, which are the operator's."""


class ImageFacts(BaseModel):
    """An image as it is stored."""

    digest: str
    address: str
    media_type: str
    width: int
    height: int


async def take_image(
    services: Services, caller: Caller, content: bytes, purpose: str
) -> StoredImage:
    """Clean an uploaded image, have it moderated, and store it with its sender.

    Raises:
        DataError: The content is not an image.
        HTTPException: 403 if a moderator refuses the image.
    """
    clean_image = await services.pictures.clean(content)
    verdict = await services.moderation.judge(
        Contribution("image", image=clean_image.content, purpose=purpose)
    )
    if not verdict.is_allowed:
        raise HTTPException(403, f"this image was rejected: {verdict.reason}")
    await asyncio.to_thread(services.pictures.put, clean_image)
    await services.database.write(_note_image, clean_image, caller)
    # Stored once more, in case the same image was deleted between the two statements above.
    await asyncio.to_thread(services.pictures.put, clean_image)
    return clean_image


async def keep_image(services: Services, content: bytes) -> StoredImage:
    """Clean and store an image of the operator, such as an example image, without moderation.

    It has no sender. Raises DataError if the content is not an image.
    """
    clean_image = await services.pictures.clean(content)
    await asyncio.to_thread(services.pictures.put, clean_image)
    await services.database.write(_note_image, clean_image, None)
    return clean_image


def may_use(connection: Connection, caller: Caller, digest: str) -> bool:
    """Return whether a caller may ask a question about an image.

    The caller may if they have uploaded this image themselves, or if it is one of the operator's.
    """
    sending = picture_sending.c
    if caller.account:
        is_own = sending.account_id == caller.account.id
    else:
        is_own = sending.visitor == caller.visitor
    query = select(sending.id).where(sending.digest == digest, or_(is_own, _OPERATORS)).limit(1)
    return connection.execute(query).scalar() is not None


def find_image_ref(connection: Connection, digest: str) -> ImageRef | None:
    """Return an uploaded image as requests to models refer to it; None if it was deleted."""
    query = select(picture).where(picture.c.digest == digest)
    row = connection.execute(query).one_or_none()
    if row is None:
        return None
    return ImageRef(row.digest, row.media_type, row.width, row.height)


@router.post(UPLOAD, status_code=201, tags=["images"], dependencies=[Depends(Limited("pictures"))])
async def send_image(file: UploadFile, services: ServicesDep, caller: CallerDep) -> ImageFacts:
    """Upload a PNG, JPEG, WebP or GIF image.

    Its metadata are removed. The file's name and stated type are ignored.
    """
    sent_image = await take_image(services, caller, await file.read(), "image")
    return ImageFacts(
        digest=sent_image.digest,
        address=f"/images/{sent_image.digest}",
        media_type=sent_image.media_type,
        width=sent_image.width,
        height=sent_image.height,
    )


@router.get("/images/{digest}", include_in_schema=False)
async def show_image(digest: str, services: ServicesDep) -> Response:
    """Send an uploaded image.

    Browsers may keep it forever, because its address is a digest of its content.
    """
    query = select(picture.c.media_type).where(picture.c.digest == digest)
    media_type = await services.database.read(lambda connection: connection.execute(query).scalar())
    content = None
    if media_type:
        content = await asyncio.to_thread(services.pictures.read, digest)
    if content is None:
        raise HTTPException(404, "no image has this name")
    headers = {
        "cache-control": "public, max-age=31536000, immutable",
        "content-disposition": "inline",
    }
    return Response(content, media_type=media_type, headers=headers)


def _note_image(connection: Connection, stored_picture: StoredImage, caller: Caller | None) -> None:
    """Note that an image was stored, and who sent it; `caller` is None for images of the operator."""
    with suppress(IntegrityError), connection.begin_nested():
        connection.execute(
            insert(picture).values(
                digest=stored_picture.digest,
                media_type=stored_picture.media_type,
                width=stored_picture.width,
                height=stored_picture.height,
                bytes=len(stored_picture.content),
                created=utc_now(),
            )
        )
    sending = (
        select(picture_sending.c.id)
        .where(picture_sending.c.digest == stored_picture.digest, _OPERATORS)
        .limit(1)
    )
    if caller is None and connection.execute(sending).scalar() is not None:
        return
    account = caller.account if caller else None
    connection.execute(
        insert(picture_sending).values(
            digest=stored_picture.digest,
            account_id=account.id if account else None,
            visitor=caller.visitor if caller and not account else None,
            sent=utc_now(),
        )
    )


async def forget_images(services: Services) -> None:
    """Delete the images without a known sender, which remain when people have their data erased."""
    await services.database.write(delete_orphans, services.pictures)


def delete_orphans(connection: Connection, store: PictureStore) -> int:
    """Delete the stored images that have no sender any more, and return their number.

    An image that another person, or the operator, has also sent is kept.
    """
    senders = select(picture_sending.c.id).where(picture_sending.c.digest == picture.c.digest)
    query = select(picture.c.digest).where(~senders.exists())
    digests = connection.execute(query).scalars().all()
    for digest in digests:
        connection.execute(delete(picture).where(picture.c.digest == digest))
        store.delete(digest)
    return len(digests)


def _upload_bytes(configuration: Configuration) -> Mapping[str, int]:
    return {UPLOAD: configuration.image_bytes + MULTIPART_BYTES}


FEATURE = Feature(
    name="pictures",
    title="Images that people send",
    router=router,
    package="snellen_server.hosting",
    tables=(picture, picture_sending),
    limits=(RateLimit("pictures", "20/minute", "60/minute"),),
    body_bytes=_upload_bytes,
    jobs=(Job("forget images", 3600, forget_images),),
    personal=(PersonalData(picture_sending, "account_id", "visitor"),),
)
