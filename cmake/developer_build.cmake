# For builds of weft itself, never one that embeds it: compiler cache, fast linker, sanitizers, warnings as errors. Each is used
# where available and can be overridden by the CMake variable that it sets.
set(WEFT_SANITIZE "" CACHE STRING "Sanitizers to build with: 'address,undefined' or 'thread'")
option(WEFT_WARNINGS_AS_ERRORS "Fail on compiler warnings" OFF)

if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(CCACHE ccache)
  if(CCACHE)
    # In weft's cache folder unless ccache is configured otherwise. No time stamps are compiled in, and precompiled headers are only
    # cached with this sloppiness. Clones share compiled files: paths are relative to the source folder. Includes are read from the
    # list that the compiler writes instead of preprocessing first, which took a fifth of a build from an empty cache.
    set(folder $ENV{CCACHE_DIR})
    if(NOT folder)
      weft_cache_folder(folder)
      string(APPEND folder /ccache)
    endif()
    set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_DIR=${folder} CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=true
      CCACHE_DEPEND=true CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
  endif()
endif()

if(NOT CMAKE_EXE_LINKER_FLAGS MATCHES "-fuse-ld")
  find_program(MOLD mold)
  find_program(LLD ld.lld)
  if(MOLD)
    add_link_options(-fuse-ld=mold)
  elseif(LLD)
    add_link_options(-fuse-ld=lld)
  endif()
endif()

# ccache identifies a precompiled header by its content.
add_compile_options("$<$<COMPILE_LANG_AND_ID:CXX,Clang>:SHELL:-Xclang -fno-pch-timestamp>")

if(WEFT_WARNINGS_AS_ERRORS)
  add_compile_options(-Werror)
endif()

if(WEFT_SANITIZE)
  # -g1 gives file and line. LibTorch is not instrumented, and most of a run is spent there; unoptimised code compiles in two thirds
  # of the time. WEFT_SANITIZED_LOOPS names the layers with long loops of their own. Not for the thread sanitizer: without inlining,
  # LibTorch calls our instrumented copies of its containers' functions and is reported as racing with itself.
  set(level -O1)
  if(NOT WEFT_SANITIZE STREQUAL "thread")
    set(level -O0)
    set(WEFT_SANITIZED_LOOPS base program comm)
  endif()
  add_compile_options(-fsanitize=${WEFT_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer ${level} -g1)
  add_compile_options("$<$<CXX_COMPILER_ID:Clang>:-fsanitize-ignorelist=${PROJECT_SOURCE_DIR}/tools/ubsan.ignore>")
  add_link_options(-fsanitize=${WEFT_SANITIZE})
endif()
