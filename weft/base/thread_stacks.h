// Stacks of this process's threads, for finding out where a process hangs. A signal (SIGURG, which is ignored by default) stops
// each thread for the microseconds that it takes to write its return addresses to memory set aside; names come later.
//
// One caller at a time; a second one waits. Nothing is installed until the first call, and nothing is left after it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace weft {

/// Where one thread stands.
struct ThreadStack {
  int id = 0;                        ///< as in /proc/self/task; the process id for its main thread
  std::string name = {};             ///< as in /proc/self/task/ID/comm
  std::vector<uintptr_t> code = {};  ///< addresses inside the functions, innermost first; empty: it did not answer in time
};

/// The stacks of all threads, the caller's left out, at most 64 functions of each. Takes up to about `limit`: threads that
/// block the signal do not answer.
std::vector<ThreadStack> thread_stacks(std::chrono::milliseconds limit);

/// Names of the functions, demangled, without their arguments, as far as the program's files have them (static functions' too,
/// unless it was stripped); of a library with its file: "nanosleep [libc.so.6]". An address for others, and for what is not
/// found by the deadline. Inlined functions have no place of their own.
std::vector<std::string> function_names(const std::vector<uintptr_t>& code, std::chrono::steady_clock::time_point deadline);

/// True for a function of the C or C++ library: its caller's name says more.
bool is_of_the_system(const std::string& function);

}  // namespace weft
