#include "weft/base/run_board.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>
#include <utility>

#include "weft/base/environment.h"
#include "weft/base/error.h"
#include "weft/base/parse_number.h"
#include "weft/base/standard_descriptors.h"

namespace weft {
namespace {

constexpr const char* kVariable = "WEFT_BOARD";
constexpr int64_t kMagic = 0x32'64'72'61'6f'62'66'77;  // "wfboard2"
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

FileDescriptor make_memory(const std::string& name) {
  FileDescriptor file(above_standard(memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING)));
  if (!file) throw Error(fmt::format("cannot allocate memory for copies of the ranks' state: {}", std::strerror(errno)));
  return file;
}

/// The file's inode number; -1 for a descriptor that is not open.
int64_t file_number(const FileDescriptor& file) {
  struct stat status {};
  return fstat(file.get(), &status) == 0 ? static_cast<int64_t>(status.st_ino) : -1;
}

}  // namespace

/// Atomic because processes read while others write; lock-free because a writer may be killed.
struct RunBoard::Page {
  struct Head {
    std::atomic<int64_t> step, ranks, launch, data_bytes, text_bytes;
    int64_t file;  ///< number of the copy's file; set before any rank starts
  };
  int64_t magic, num_copies;  ///< set before any rank starts
  std::atomic<int64_t> steps_done, saved_step, launch, failed_ns, growing, stopping;
  std::atomic<double> loss, lr, samples, tokens, samples_per_s, memory_bytes;  ///< RunFigures
  std::atomic<int64_t> saved_ns, step_ns;                                      ///< RunFigures
  Head copies[1];                                                              ///< rank x copy
};

RunBoard::RunBoard(int most_ranks) : page_file_(make_memory("weft:run board")) {
  bytes_ = sizeof(Page) + sizeof(Page::Head) * static_cast<size_t>(most_ranks) * kStateCopies;
  if (ftruncate(page_file_.get(), static_cast<off_t>(bytes_)) != 0) {
    throw Error(fmt::format("cannot create the run's board: {}", std::strerror(errno)));
  }
  // One file per copy: the kernel lets only one process write a file, and ranks copy concurrently.
  for (int i = 0; i < most_ranks * kStateCopies; ++i) {
    files_.push_back(make_memory(fmt::format("weft:state of rank {}, copy {}", i / kStateCopies, i % kStateCopies)));
  }
  if (fcntl(page_file_.get(), F_ADD_SEALS, kSeals) != 0 || !map()) {
    throw Error(fmt::format("cannot create the run's board: {}", std::strerror(errno)));
  }
  page_->magic = kMagic;
  page_->saved_step = -1;
  page_->num_copies = static_cast<int64_t>(files_.size());
  for (size_t i = 0; i < files_.size(); ++i) {
    page_->copies[i].step = -1;
    page_->copies[i].file = file_number(files_[i]);
  }
}

RunBoard::RunBoard(FileDescriptor page, std::vector<FileDescriptor> files)
    : page_file_(std::move(page)), files_(std::move(files)) {
  bytes_ = sizeof(Page) + sizeof(Page::Head) * files_.size();
}

bool RunBoard::map() {
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, page_file_.get(), 0);
  if (memory == MAP_FAILED) return false;
  page_ = static_cast<Page*>(memory);
  return true;
}

/// Requires a mapped page, whose size then matches the number of files.
bool RunBoard::is_whole() const {
  if (page_->magic != kMagic || page_->num_copies != static_cast<int64_t>(files_.size())) return false;
  for (size_t i = 0; i < files_.size(); ++i) {
    if (page_->copies[i].file != file_number(files_[i])) return false;
  }
  return true;
}

RunBoard::~RunBoard() {
  if (page_ != nullptr) munmap(page_, bytes_);
}

std::unique_ptr<RunBoard> RunBoard::from_environment() {
  const auto text = env_string(kVariable);
  if (!text) return nullptr;
  std::vector<FileDescriptor> files;
  std::istringstream in(*text);
  for (std::string number; std::getline(in, number, ',');) {
    // Duplicates, because the inherited descriptors stay open for a program that this rank may run.
    files.emplace_back(fcntl(parse_number<int>(number).value_or(-1), F_DUPFD_CLOEXEC, 3));
  }
  const int seals = files.empty() ? -1 : fcntl(files.front().get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) return nullptr;
  FileDescriptor page = std::move(files.front());
  files.erase(files.begin());
  std::unique_ptr<RunBoard> board(new RunBoard(std::move(page), std::move(files)));
  struct stat status {};
  const bool fits = fstat(board->page_file_.get(), &status) == 0 && status.st_size == static_cast<off_t>(board->bytes_);
  return fits && board->map() && board->is_whole() ? std::move(board) : nullptr;
}

std::vector<int> RunBoard::descriptors() const {
  std::vector<int> numbers = {page_file_.get()};
  for (const FileDescriptor& file : files_) numbers.push_back(file.get());
  return numbers;
}

std::string RunBoard::environment() const { return fmt::format("{}={}", kVariable, fmt::join(descriptors(), ",")); }

int64_t RunBoard::steps_done() const { return page_->steps_done; }
void RunBoard::set_steps_done(int64_t steps) { page_->steps_done = steps; }
int64_t RunBoard::saved_step() const { return page_->saved_step; }
void RunBoard::set_saved_step(int64_t steps) { page_->saved_step = steps; }
int64_t RunBoard::launch() const { return page_->launch; }
void RunBoard::begin_launch() { ++page_->launch; }
int64_t RunBoard::failed_ns() const { return page_->failed_ns; }
void RunBoard::set_failed_ns(int64_t time_ns) { page_->failed_ns = time_ns; }
bool RunBoard::is_growing() const { return page_->growing != 0; }
void RunBoard::set_growing(bool is) { page_->growing = is ? 1 : 0; }
bool RunBoard::is_stopping() const { return page_->stopping != 0; }
void RunBoard::set_stopping(bool is) { page_->stopping = is ? 1 : 0; }
RunFigures RunBoard::figures() const {
  return {.loss = page_->loss,
          .lr = page_->lr,
          .samples = page_->samples,
          .tokens = page_->tokens,
          .samples_per_s = page_->samples_per_s,
          .memory_bytes = page_->memory_bytes,
          .saved_ns = page_->saved_ns,
          .step_ns = page_->step_ns};
}
void RunBoard::set_figures(const RunFigures& figures) {
  page_->loss = figures.loss;
  page_->lr = figures.lr;
  page_->samples = figures.samples;
  page_->tokens = figures.tokens;
  page_->samples_per_s = figures.samples_per_s;
  page_->memory_bytes = figures.memory_bytes;
  page_->saved_ns = figures.saved_ns;
  page_->step_ns = figures.step_ns;
}
int RunBoard::most_ranks() const { return static_cast<int>(files_.size()) / kStateCopies; }

RunBoard::Copy RunBoard::copy(int rank, int number) const {
  const Page::Head& head = page_->copies[rank * kStateCopies + number];
  Copy copy{.step = head.step};  // first: the rest was set before it
  copy.ranks = static_cast<int>(head.ranks);
  copy.launch = head.launch;
  copy.data_bytes = head.data_bytes;
  copy.text_bytes = head.text_bytes;
  return copy;
}

int64_t RunBoard::newest_copy() const {
  int64_t newest = -1;
  for (int number = 0; number < kStateCopies && most_ranks() > 0; ++number) newest = std::max(newest, copy(0, number).step);
  return newest;
}

void RunBoard::set_copy(int rank, int number, const Copy& copy) {
  Page::Head& head = page_->copies[rank * kStateCopies + number];
  head.step = -1;
  head.ranks = copy.ranks;
  head.launch = copy.launch;
  head.data_bytes = copy.data_bytes;
  head.text_bytes = copy.text_bytes;
  head.step = copy.step;
}

int RunBoard::file(int rank, int number) const { return files_[static_cast<size_t>(rank * kStateCopies + number)].get(); }

}  // namespace weft
