# Two commands from a fresh clone: `make train` and `make test`. `make help` lists the rest.
# Every target can be interrupted and repeated; finished steps are skipped.
PREFIX ?= $(CURDIR)/install
.DEFAULT_GOAL := all
.PHONY: all buckets setup configure train test test-cluster libraries install package test-package wheel sdist test-wheel format lint docs gallery clean help

all: configure  ## set this machine up and build the command: build/weft
	@cmake --build --preset release --target weft

setup:  ## install build dependencies, unpack LibTorch
	@tools/bootstrap $(setup_options)

configure: setup
	@[ -e build/build.ninja ] || tools/configure release

buckets: setup_options = --buckets
buckets: configure  ## build the command with object stores (s3://, gs://, abfs://) and Parquet
	@tools/configure release -DWEFT_BUCKETS=ON
	@cmake --build --preset release --target weft

train: all  ## train a convolutional network on Fashion-MNIST, on 2 ranks
	@build/weft train recipes/fashion_mnist.toml -n 2

test: setup_options = --tests
test: configure  ## build everything and run all tests
	@tools/configure release -DWEFT_BUCKETS=ON
	@cmake --build --preset release
	@ctest --preset release; status=$$?; tools/slowest_tests build; exit $$status

test-cluster: setup_options = --tests --cluster
test-cluster: configure  ## test hosts, cluster managers and containers on this machine (as root)
	@tools/configure release -DWEFT_BUCKETS=ON
	@cmake --build --preset release --target weft weft_c
	@tests/cluster/run

libraries: all
	@cmake --build --preset release --target weft_checked_device weft_c

install: libraries  ## install into PREFIX (default: install/); relocatable
	@umask 022 && cmake --install build --prefix "$(PREFIX)" >build/install.log || { cat build/install.log; exit 1; }
	@echo "installed in $(PREFIX)"

package: libraries  ## Debian packages and a source tarball, into build/packages
	@tools/bootstrap --packaging
	@tools/package

test-package: package  ## test the packages in a clean Debian (as root; downloads 100 MB once)
	@tests/install/package_test.sh

wheel: setup_options = --buckets --python
wheel: configure  ## a wheel for pip, over the LibTorch of torch 2.11, into build/wheels
	@tools/configure release -DWEFT_BUCKETS=ON
	@cmake --build --preset release --target wheel_parts
	@tools/wheel

sdist:  ## the sources from which pip builds that wheel, into build/wheels
	@python3 -B python/weft_build.py build/wheels

test-wheel: wheel  ## test the wheel and pip's torch in a clean Debian (as root; downloads 3 GB)
	@tests/wheel/clean_debian_test.sh

format:  ## rewrite the sources in the project's format
	@tools/format --fix

lint: setup  ## layers, format and clang-tidy
	@tools/bootstrap --lint
	@tools/configure release
	@tools/check_layers && tools/check_host_accesses && tools/format --check && tools/lint

docs:  ## build the API reference: build/docs/html
	@tools/bootstrap --docs
	@mkdir -p build/docs
	@WEFT_VERSION=$$(sed -n 's/^project(weft VERSION \([^ )]*\).*/\1/p' CMakeLists.txt) doxygen docs/Doxyfile
	@echo "build/docs/html/index.html"

gallery: setup_options = --tests
gallery: all  ## make the pictures of docs/gallery.md anew
	@tests/records/gallery.py build/weft docs/images/gallery

clean:  ## remove the build folders, keep the cache folder
	@rm -rf build build-dev build-asan build-tsan build-cuda

help:
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
