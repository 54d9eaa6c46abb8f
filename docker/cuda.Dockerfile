# Snellen on NVIDIA's GPUs:  docker build -t snellen:cuda -f docker/cuda.Dockerfile .
FROM python:3.12-slim-bookworm@sha256:782412e85d0f0984994c290652577d4018aff08145c85b262bb63dc0c7522254

# A number, so that whoever mounts a folder knows whose it has to be.
RUN useradd --create-home --uid 1000 snellen && install -d -o snellen /snellen
WORKDIR /source
COPY pyproject.toml constraints.txt README.md CHANGELOG.md LICENSE ./
COPY src ./src
COPY packages ./packages
COPY deploy/requirements.lock ./deploy/requirements.lock
# torch from PyPI brings the CUDA libraries that it needs; the driver comes with the container runtime (--gpus all).
RUN pip install --no-cache-dir --require-hashes --no-deps -r deploy/requirements.lock \
    && pip install --no-cache-dir -c constraints.txt torch \
    && pip install --no-cache-dir --no-deps --no-build-isolation . packages/snellen-lab packages/snellen-server

ENV NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER 1000
WORKDIR /snellen
ENTRYPOINT ["snellen"]
CMD ["doctor"]
