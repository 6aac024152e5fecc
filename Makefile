# Two commands from a fresh clone: `make train` and `make test`. `make help` lists the rest.
# Everything can be repeated and interrupted; what is done is not done again.
PREFIX ?= $(CURDIR)/install
.DEFAULT_GOAL := all
.PHONY: all setup configure train test install format lint clean help

all: configure  ## set this machine up and build the command: build/weft
	@cmake --build --preset release --target weft

setup:  ## install what building needs, unpack LibTorch
	@tools/bootstrap

configure: setup
	@[ -e build/build.ninja ] || tools/configure release

train: all  ## train a convolutional network on Fashion-MNIST, on 2 ranks
	@build/weft train recipes/fashion_mnist.toml -n 2

test: configure  ## build everything and run all tests
	@tools/bootstrap --tests
	@cmake --build --preset release
	@ctest --preset release

install: all  ## install into PREFIX (install/ unless told)
	@cmake --install build --prefix "$(PREFIX)" | grep -v '^-- Up-to-date:'

format:  ## rewrite the sources in the project's format
	@tools/format --fix

lint: configure  ## layers, format and clang-tidy
	@tools/check_layers && tools/format --check && tools/lint

clean:  ## remove the build folders; the cache folder stays
	@rm -rf build build-dev build-asan build-tsan build-clang build-cuda

help:
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
