// Memory opened by address: only the intended memory is opened.
#include "weft/comm/host/shared_memory.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "weft/base/error.h"

namespace weft::shared_memory_test {
namespace {

std::string error_of(const std::string& address) {
  try {
    shm::open_peer_memory(address);
  } catch (const CommError& error) {
    return error.what();
  }
  return "no error";
}

TEST(SharedMemory, OnlyTheIntendedMemoryIsOpened) {
  const FileDescriptor memory = shm::create_memory("a test's", 4096), other = shm::create_memory("a test's", 4096);
  const std::string address = shm::memory_address(memory);
  EXPECT_EQ(error_of(address), "no error");
  // As in another container's process, under the same numbers.
  const std::string theirs = shm::memory_address(other);
  const std::string mixed = fmt::format("{} {} {}", ::getpid(), memory.get(), theirs.substr(theirs.find('/')));
  EXPECT_NE(error_of(mixed).find("is not a peer's memory: the peer has ended, or ranks that share a host name cannot see"),
            std::string::npos)
      << error_of(mixed);
  EXPECT_NE(error_of(fmt::format("{} 9999 /memfd:weft", ::getpid())).find("set different WEFT_HOST names"), std::string::npos);
  for (const std::string text : {"", "1", "a b c"})
    EXPECT_NE(error_of(text).find("is not an address of shared memory"), std::string::npos) << text;
}

}  // namespace
}  // namespace weft::shared_memory_test
