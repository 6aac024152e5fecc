#include "weft/launch/agent/ssh_agents.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/printable.h"
#include "weft/base/standard_descriptors.h"
#include "weft/base/uninterrupted.h"
#include "weft/launch/shell_words.h"

namespace weft {

namespace {

constexpr std::chrono::milliseconds kToRun{1000}, kToEnd{3000};
constexpr int kNoProgram = 126, kSshFailed = 255;

FileDescriptor memory_file(const char* name) {
  FileDescriptor file(above_standard(memfd_create(name, MFD_CLOEXEC)));
  if (!file) throw Error(fmt::format("cannot create a memory file for {}: {}", name, std::strerror(errno)));
  return file;
}

/// A pipe that holds the text: the read end, and the end that keeps it open.
std::pair<FileDescriptor, FileDescriptor> input_of(const std::string& text) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw Error(fmt::format("cannot create a pipe for an agent's order: {}", std::strerror(errno)));
  std::pair<FileDescriptor, FileDescriptor> pipe{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
  fcntl(ends[1], F_SETPIPE_SZ, static_cast<int>(text.size()) + (64 << 10));  // nothing reads it yet
  fcntl(ends[1], F_SETFL, O_NONBLOCK);
  if (uninterrupted([&] { return write(ends[1], text.data(), text.size()); }) != static_cast<ssize_t>(text.size())) {
    throw Error(fmt::format("cannot pass on {} bytes of command and environment; export less (-x)", text.size()));
  }
  return pipe;
}

/// Returns true if JSON can hold the text unchanged.
bool is_utf8(const std::string& text) {
  try {
    static_cast<void>(nlohmann::json(text).dump());
    return true;
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

/// Joins the lines of a file into one.
std::string one_line(const FileDescriptor& file) {
  std::string text(4096, '\0');
  const ssize_t got = uninterrupted([&] { return pread(file.get(), text.data(), text.size(), 0); });
  text.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  std::istringstream words(text);
  std::string line;
  for (std::string word; words >> word;) line += (line.empty() ? "" : " ") + word;
  return shortened(line, 500);
}

/// Waits until ssh runs. If it cannot, no other host is to blame.
void check_ssh(const ProcessGroup& ssh) {
  try {
    ssh.check_run(kToRun);
  } catch (const InputError& error) {
    throw InputError(
        fmt::format("{}: hosts are started through the ssh of this host; install it (Debian: openssh-client), or "
                    "start weft on each host with --nodes",
                    error.what()));
  }
}

}  // namespace

std::string order_text(const AgentOrder& order) {
  const auto check = [](const std::string& text, const char* what) {
    if (is_utf8(text)) return;
    throw InputError(
        fmt::format("{} \"{}\" is not UTF-8 and cannot be passed to other hosts: use UTF-8, or "
                    "put it in a file",
                    what, shortened(text)));
  };
  check(order.folder, "the working folder");
  for (const std::string& word : order.command) check(word, "the command's word");
  for (const std::string& entry : order.environment) check(entry, "the environment variable");
  return nlohmann::json{{"token", order.token},
                        {"head_host", order.head_host},
                        {"head_port", order.head_port},
                        {"node", order.node},
                        {"ranks", order.num_ranks},
                        {"host", order.host},
                        {"folder", order.folder},
                        {"command", order.command},
                        {"environment", order.environment},
                        {"prefix", order.prefix},
                        {"host_timeout_s", order.host_timeout_s}}
             .dump() +
         "\n";
}

AgentOrder parse_order(const std::string& line) {
  try {
    const nlohmann::json json = nlohmann::json::parse(line);
    AgentOrder order{.token = json.at("token"), .head_host = json.at("head_host"), .head_port = json.at("head_port")};
    order.node = json.at("node");
    order.num_ranks = json.at("ranks");
    order.host = json.at("host");
    order.folder = json.at("folder");
    order.command = json.at("command").get<std::vector<std::string>>();
    order.environment = json.at("environment").get<std::vector<std::string>>();
    order.prefix = json.at("prefix");
    order.host_timeout_s = json.at("host_timeout_s");
    return order;
  } catch (const nlohmann::json::exception&) {
    throw InputError("weft agent is started by weft run --hosts, which sends it an order; all hosts need the same weft");
  }
}

SshAgents::SshAgents(SshOptions options) : options_(std::move(options)), guardian_(1024), processes_(options_.places.size()) {}

std::vector<std::string> SshAgents::command(const HostPlace& place, const FileDescriptor& log) const {
  // Through this process's pid: ssh closes inherited descriptors.
  std::vector<std::string> words = {"ssh", "-T", "-E", fmt::format("/proc/{}/fd/{}", getpid(), log.get())};
  const auto add = [&](const std::string& option) {
    words.emplace_back("-o");
    words.push_back(option);
  };
  // ssh uses the first value given.
  for (const char* option :
       {"BatchMode=yes", "StrictHostKeyChecking=yes", "ForwardAgent=no", "ForwardX11=no", "LogLevel=ERROR"}) {
    add(option);
  }
  for (const std::string& option : options_.options) add(option);
  for (const char* option : {"ConnectTimeout=10", "ServerAliveInterval=10", "ClearAllForwardings=yes"}) add(option);
  words.emplace_back("--");
  words.push_back(place.host);
  words.push_back(fmt::format("test -x {0} || exit {1}; exec {0} agent", shell_word(options_.weft), kNoProgram));
  return words;
}

void SshAgents::start(int node) {
  Process& process = processes_[static_cast<size_t>(node)];
  if (process.ssh) return;
  const HostPlace& place = options_.places[static_cast<size_t>(node)];
  AgentOrder order = options_.order;
  order.node = node;
  order.num_ranks = place.ranks;
  order.host = short_host_name(place.host);
  process.log = memory_file("weft:what ssh says");
  process.failure.clear();
  auto [input, order_end] = input_of(order_text(order));
  process.order = std::move(order_end);
  ProcessStart ssh{.command = command(place, process.log), .standard_input = input.get()};
  for (char** entry = environ; *entry != nullptr; ++entry) ssh.environment.emplace_back(*entry);
  ssh.guardian = &guardian_;
  sigemptyset(&ssh.signal_mask);
  process.ssh.emplace(ssh);
  if (has_run_) return;
  check_ssh(*process.ssh);
  has_run_ = true;
}

std::string SshAgents::failure(int node) {
  Process& process = processes_[static_cast<size_t>(node)];
  if (const std::optional<int> status = process.ssh ? process.ssh->reap() : std::nullopt) {
    process.order.close();
    process.failure = why(process, *status);
    process.ssh.reset();
  }
  return process.failure;
}

std::string SshAgents::why(const Process& process, int wait_status) const {
  const std::string said = one_line(process.log);
  try {
    process.ssh->check_run();
  } catch (const InputError& error) {
    return error.what();
  }
  if (WIFSIGNALED(wait_status)) return fmt::format("its ssh was ended by signal {}", WTERMSIG(wait_status));
  switch (WEXITSTATUS(wait_status)) {
    case kSshFailed:
      return said.empty() ? "ssh could not reach it and gave no reason" : "ssh: " + said;
    case kNoProgram:
    case kNoProgram + 1:
      return said.empty() ? fmt::format("there is no program {} there; install weft at that path, or use --remote-weft PATH",
                                        options_.weft)
                          : said;
    default:
      return fmt::format("its agent ended with status {} before it joined; see its error above", WEXITSTATUS(wait_status));
  }
}

void SshAgents::lost(int node) { processes_[static_cast<size_t>(node)].ssh.reset(); }

void SshAgents::finish() {
  const Deadline deadline = kToEnd;
  for (Process& process : processes_) {
    if (process.ssh) process.ssh->wait(deadline);
  }
  for (Process& process : processes_) process.ssh.reset();
}

void SshAgents::add_descriptors(std::vector<pollfd>& all) const {
  for (const Process& process : processes_) {
    if (process.ssh) all.push_back(process.ssh->descriptor());
  }
}

}  // namespace weft
