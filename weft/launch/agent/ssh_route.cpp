#include "weft/launch/agent/ssh_route.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <deque>
#include <sstream>

#include "weft/base/deadline.h"
#include "weft/base/error.h"
#include "weft/base/interfaces.h"
#include "weft/base/standard_descriptors.h"
#include "weft/base/uninterrupted.h"
#include "weft/launch/process_group.h"

namespace weft {

namespace {

constexpr std::chrono::milliseconds kToConfigure{10'000};

ProcessGroup ask_ssh(const std::string& host, const std::vector<std::string>& options, const FileDescriptor& output) {
  const FileDescriptor null(above_standard(open("/dev/null", O_RDONLY | O_CLOEXEC)));
  ProcessStart ssh{.command = {"ssh", "-G"}, .standard_input = null.get()};
  for (const std::string& option : options) ssh.command.insert(ssh.command.end(), {"-o", option});
  ssh.command.insert(ssh.command.end(), {"--", host});
  for (char** entry = environ; *entry != nullptr; ++entry) ssh.environment.emplace_back(*entry);
  ssh.standard_output = output.get();
  sigemptyset(&ssh.signal_mask);
  return ProcessGroup(ssh);
}

/// A run of `ssh -G`, which ends with this object.
class Configuration {
 public:
  Configuration(const std::string& host, const std::vector<std::string>& options)
      : output_(above_standard(memfd_create("weft:ssh's configuration", MFD_CLOEXEC))), ssh_(ask_ssh(host, options, output_)) {}

  /// Returns the output; empty if ssh fails or has not ended by the deadline.
  std::string text(const Deadline& deadline) {
    std::string all;
    if (!ssh_.wait(deadline) || ssh_.reap() != 0) return all;
    std::array<char, 4096> part;
    lseek(output_.get(), 0, SEEK_SET);
    while (true) {
      const ssize_t count = uninterrupted([&] { return read(output_.get(), part.data(), part.size()); });
      if (count <= 0) return all;
      all.append(part.data(), static_cast<size_t>(count));
    }
  }

 private:
  FileDescriptor output_;
  ProcessGroup ssh_;
};

/// Returns this host's address towards `host`; empty for one that another host cannot use: loopback or link-local.
std::string usable_address_towards(const std::string& host) {
  try {
    const std::string address = local_address_towards(host);
    return is_loopback_address(address) || address.find('%') != std::string::npos ? "" : address;
  } catch (const Error&) {  // ssh will report it, or knows better
    return {};
  }
}

}  // namespace

std::string direct_host(const std::string& configuration) {
  std::istringstream lines(configuration);
  std::string host;
  for (std::string line; std::getline(lines, line);) {
    const size_t space = line.find(' ');
    const std::string key = line.substr(0, space), value = space == std::string::npos ? "" : line.substr(space + 1);
    if (key == "hostname") host = value;
    const bool between = key == "proxyjump" || key == "proxycommand" || key == "bindaddress" || key == "bindinterface";
    if (between && !value.empty() && value != "none") return {};
  }
  return host;
}

std::string address_towards(const std::vector<std::string>& hosts, const std::vector<std::string>& options) {
  const Deadline deadline = kToConfigure;
  std::deque<Configuration> running;
  for (const std::string& host : hosts) running.emplace_back(host, options);
  std::string common;
  for (Configuration& configuration : running) {
    const std::string host = direct_host(configuration.text(deadline));
    const std::string address = host.empty() ? "" : usable_address_towards(host);
    if (address.empty() || (!common.empty() && address != common)) return {};
    common = address;
  }
  return common;
}

}  // namespace weft
