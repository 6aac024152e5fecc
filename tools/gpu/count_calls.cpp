// Preloaded into weft: counts its calls of the CUDA runtime, and notes which of its functions make the host wait for the GPU.
//
//   WEFT_COUNT_FILE=FILE   gets at exit {"calls": {NAME: [calls, bytes]}, "waits": [[[FRAME, ...], calls, seconds]]}
//
// Frames are weft's own on the stack, innermost first, as offsets for addr2line. Libraries with a CUDA runtime of their own
// (cuBLAS, cuDNN, NCCL) are not counted, so launches leave out most matrix products.
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

namespace {

// The runtime's types, which this file only passes on.
using Status = int;
using Handle = void*;  // a stream, an event
struct Size3 {
  unsigned x, y, z;
};

struct Total {
  long calls = 0;
  double amount = 0;
};
constexpr int kFrames = 8;
using Frames = std::array<uintptr_t, kFrames>;

/// The address range of the program itself.
struct Program {
  uintptr_t base = 0, begin = UINTPTR_MAX, end = 0;
};

Program find_program() {
  Program program;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* result) {
        auto& found = *static_cast<Program*>(result);
        found.base = info->dlpi_addr;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& part = info->dlpi_phdr[i];
          if (part.p_type != PT_LOAD) continue;
          found.begin = std::min(found.begin, found.base + part.p_vaddr);
          found.end = std::max(found.end, found.base + part.p_vaddr + part.p_memsz);
        }
        return 1;  // the first is the program
      },
      &program);
  return program;
}

Frames frames_here() {
  static const Program program = find_program();
  std::array<void*, 96> stack;
  const int depth = backtrace(stack.data(), static_cast<int>(stack.size()));
  Frames frames{};
  int count = 0;
  for (int i = 0; i < depth && count < kFrames; ++i) {
    const auto address = reinterpret_cast<uintptr_t>(stack[i]);
    if (address > program.begin && address < program.end) frames[count++] = address - 1 - program.base;  // -1: within the call
  }
  return frames;
}

class Counts {
 public:
  void add(const char* name, size_t bytes = 0) {
    const std::lock_guard lock(mutex_);
    add(calls_[name], static_cast<double>(bytes));
  }
  void add_wait(double seconds) {
    const Frames frames = frames_here();
    const std::lock_guard lock(mutex_);
    add(calls_["synchronisation"], 0.0);
    add(waits_[frames], seconds);
  }
  void write(FILE* file) {
    const std::lock_guard lock(mutex_);
    const char* comma = "";
    fprintf(file, "{\"calls\": {");
    for (const auto& [name, total] : calls_) {
      fprintf(file, "%s\"%s\": [%ld, %.0f]", comma, name.c_str(), total.calls, total.amount);
      comma = ", ";
    }
    fprintf(file, "}, \"waits\": [");
    comma = "";
    for (const auto& [frames, total] : waits_) {
      fprintf(file, "%s[[", comma);
      for (int i = 0; i < kFrames && frames[i] != 0; ++i) fprintf(file, "%s%lu", i > 0 ? ", " : "", frames[i]);
      fprintf(file, "], %ld, %.6f]", total.calls, total.amount);
      comma = ", ";
    }
    fprintf(file, "]}\n");
  }

 private:
  static void add(Total& total, double amount) {
    ++total.calls;
    total.amount += amount;
  }

  std::mutex mutex_;
  std::map<std::string, Total> calls_;
  std::map<Frames, Total> waits_;
};

/// Never destroyed: the runtime is called until the process ends.
Counts& counts() {
  static auto* all = new Counts;
  return *all;
}

struct AtExit {
  ~AtExit() {
    const char* path = getenv("WEFT_COUNT_FILE");
    FILE* file = path != nullptr ? fopen(path, "w") : nullptr;
    if (file == nullptr) return;
    counts().write(file);
    fclose(file);
  }
} at_exit;

/// Calls the runtime's own function.
template <class... Arguments>
Status call(const char* name, Arguments... arguments) {
  return reinterpret_cast<Status (*)(Arguments...)>(dlsym(RTLD_NEXT, name))(arguments...);
}

template <class... Arguments>
Status wait(const char* name, Arguments... arguments) {
  const auto begin = std::chrono::steady_clock::now();
  const Status status = call(name, arguments...);
  counts().add_wait(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  return status;
}

const char* name_of_copy(int kind) {
  const std::array names{"copy on the host", "copy host to device", "copy device to host", "copy on the device"};
  return kind >= 0 && kind < static_cast<int>(names.size()) ? names[kind] : "copy";
}

}  // namespace

extern "C" {

Status cudaStreamSynchronize(Handle stream) { return wait("cudaStreamSynchronize", stream); }
Status cudaEventSynchronize(Handle event) { return wait("cudaEventSynchronize", event); }
Status cudaDeviceSynchronize() { return wait("cudaDeviceSynchronize"); }

Status cudaMemcpy(void* to, const void* from, size_t bytes, int kind) {
  counts().add(name_of_copy(kind), bytes);
  return wait("cudaMemcpy", to, from, bytes, kind);
}

Status cudaMemcpyAsync(void* to, const void* from, size_t bytes, int kind, Handle stream) {
  counts().add(name_of_copy(kind), bytes);
  return call("cudaMemcpyAsync", to, from, bytes, kind, stream);
}

Status cudaMemsetAsync(void* to, int value, size_t bytes, Handle stream) {
  counts().add("memset", bytes);
  return call("cudaMemsetAsync", to, value, bytes, stream);
}

// Three entries for launches: compiled code of CUDA 12 and before, of CUDA 13, and launches with attributes.
Status cudaLaunchKernel(const void* kernel, Size3 grid, Size3 block, void** arguments, size_t shared, Handle stream) {
  counts().add("launch");
  return call("cudaLaunchKernel", kernel, grid, block, arguments, shared, stream);
}

Status __cudaLaunchKernel(void* kernel, Size3 grid, Size3 block, void** arguments, size_t shared, Handle stream) {
  counts().add("launch");
  return call("__cudaLaunchKernel", kernel, grid, block, arguments, shared, stream);
}

Status cudaLaunchKernelExC(const void* configuration, const void* kernel, void** arguments) {
  counts().add("launch");
  return call("cudaLaunchKernelExC", configuration, kernel, arguments);
}

Status cudaMalloc(void** memory, size_t bytes) {
  counts().add("malloc", bytes);
  return call("cudaMalloc", memory, bytes);
}

Status cudaHostAlloc(void** memory, size_t bytes, unsigned flags) {
  counts().add("pinned malloc", bytes);
  return call("cudaHostAlloc", memory, bytes, flags);
}

}  // extern "C"
