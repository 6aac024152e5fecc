// Names of functions by address: from the symbol tables of the ELF files that are mapped, which also have static functions
// (dladdr() knows exported ones alone).
#include <cxxabi.h>
#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string_view>

#include "weft/base/file_descriptor.h"
#include "weft/base/thread_stacks.h"

namespace weft {
namespace {

/// A mapped file of code.
struct Module {
  std::string path = {};
  uintptr_t base = 0;  ///< what is added to the file's addresses
  uintptr_t begin = 0, end = 0;
};

std::vector<Module> modules() {
  std::vector<Module> found;
  const auto visit = [](dl_phdr_info* info, size_t /*size*/, void* data) {
    Module module{.path = info->dlpi_name, .base = info->dlpi_addr, .begin = UINTPTR_MAX, .end = 0};
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const auto& segment = info->dlpi_phdr[i];
      if (segment.p_type != PT_LOAD) continue;
      module.begin = std::min<uintptr_t>(module.begin, module.base + segment.p_vaddr);
      module.end = std::max<uintptr_t>(module.end, module.base + segment.p_vaddr + segment.p_memsz);
    }
    if (module.path.empty()) module.path = "/proc/self/exe";
    static_cast<std::vector<Module>*>(data)->push_back(module);
    return 0;
  };
  ::dl_iterate_phdr(visit, &found);
  return found;
}

/// A file in memory, read only.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path) {
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat status = {};
    if (!file || ::fstat(file.get(), &status) != 0 || status.st_size <= 0) return;
    void* memory = ::mmap(nullptr, static_cast<size_t>(status.st_size), PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (memory != MAP_FAILED) bytes_ = {static_cast<const char*>(memory), static_cast<size_t>(status.st_size)};
  }
  ~MappedFile() {
    if (!bytes_.empty()) ::munmap(const_cast<char*>(bytes_.data()), bytes_.size());
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  /// `count` values at an offset; null where the file is shorter.
  template <class T>
  const T* at(uint64_t offset, uint64_t count = 1) const {
    const bool fits = offset % alignof(T) == 0 && offset <= bytes_.size() && count <= (bytes_.size() - offset) / sizeof(T);
    return fits ? reinterpret_cast<const T*>(bytes_.data() + offset) : nullptr;
  }

 private:
  std::string_view bytes_;
};

/// The functions of a file's symbol table: the whole one, or, if that was stripped, of what it exports.
class Symbols {
 public:
  explicit Symbols(const std::string& path) : file_(path) {
    const auto* header = file_.at<ElfW(Ehdr)>(0);
    if (header == nullptr || std::string_view(reinterpret_cast<const char*>(header->e_ident), SELFMAG) != ELFMAG) return;
    if (header->e_shentsize != sizeof(ElfW(Shdr))) return;
    const auto* sections = file_.at<ElfW(Shdr)>(header->e_shoff, header->e_shnum);
    if (sections == nullptr) return;
    for (const uint32_t type : {SHT_SYMTAB, SHT_DYNSYM}) {
      for (int i = 0; i < header->e_shnum && functions_.empty(); ++i) {
        if (sections[i].sh_type == type && sections[i].sh_link < header->e_shnum)
          read(sections[i], sections[sections[i].sh_link]);
      }
    }
    std::sort(functions_.begin(), functions_.end(), [](const Function& a, const Function& b) { return a.begin < b.begin; });
  }

  std::optional<std::string> at(uint64_t address) const {
    auto next = std::upper_bound(functions_.begin(), functions_.end(), address,
                                 [](uint64_t value, const Function& function) { return value < function.begin; });
    if (next == functions_.begin() || address >= (--next)->begin + next->bytes) return std::nullopt;
    const char* name = file_.at<char>(names_ + next->name, name_bytes_ - next->name);
    return name == nullptr ? std::nullopt : std::optional(std::string(name, strnlen(name, name_bytes_ - next->name)));
  }

 private:
  struct Function {
    uint64_t begin, bytes;
    uint32_t name;
  };

  void read(const ElfW(Shdr) & table, const ElfW(Shdr) & names) {
    if (table.sh_entsize != sizeof(ElfW(Sym))) return;
    const uint64_t count = table.sh_size / sizeof(ElfW(Sym));
    const auto* symbols = file_.at<ElfW(Sym)>(table.sh_offset, count);
    if (symbols == nullptr) return;
    names_ = names.sh_offset;
    name_bytes_ = names.sh_size;
    for (uint64_t i = 0; i < count; ++i) {
      const auto& symbol = symbols[i];
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_value == 0 || symbol.st_name >= names.sh_size) continue;
      functions_.push_back({symbol.st_value, std::max<uint64_t>(symbol.st_size, 1), symbol.st_name});
    }
  }

  MappedFile file_;
  std::vector<Function> functions_;
  uint64_t names_ = 0, name_bytes_ = 0;
};

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

/// Leaves out what is between `open` and `close`, of any depth.
std::string without(const std::string& text, char open, char close, const char* instead) {
  std::string kept;
  int depth = 0;
  for (const char c : text) {
    if (c == open && depth++ == 0) kept += instead;
    if (depth == 0) kept += c;
    if (c == close && depth > 0) --depth;
  }
  return kept;
}

/// "weft::f<int>(a, b) const" -> "weft::f<int>"; long template arguments are left out too.
std::string without_arguments(std::string name) {
  constexpr size_t kLong = 120;
  replace_all(name, "(anonymous namespace)", "\1");
  replace_all(name, "operator()", "\2");
  name = without(name, '(', ')', "");
  if (name.size() > kLong && name.find("operator<") == std::string::npos && name.find("operator>") == std::string::npos &&
      name.find("operator-") == std::string::npos)
    name = without(name, '<', '>', "<>");
  if (name.ends_with(" const")) name.resize(name.size() - 6);
  replace_all(name, "\1", "(anonymous namespace)");
  replace_all(name, "\2", "operator()");
  return name;
}

std::string readable(const std::string& symbol) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 && name ? without_arguments(name.get()) : symbol;
}

}  // namespace

std::vector<std::string> function_names(const std::vector<uintptr_t>& code, std::chrono::steady_clock::time_point deadline) {
  const std::vector<Module> mapped = modules();
  std::map<std::string, std::unique_ptr<Symbols>> tables;
  std::vector<std::string> names;
  names.reserve(code.size());
  for (const uintptr_t address : code) {
    const auto module = std::find_if(mapped.begin(), mapped.end(),
                                     [&](const Module& one) { return address >= one.begin && address < one.end; });
    if (module == mapped.end()) {
      names.push_back(fmt::format("{:#x}", address));
      continue;
    }
    std::unique_ptr<Symbols>& table = tables[module->path];
    std::optional<std::string> symbol;
    if (table || std::chrono::steady_clock::now() < deadline) {
      if (!table) table = std::make_unique<Symbols>(module->path);
      symbol = table->at(address - module->base);
    }
    const std::string file = std::filesystem::path(module->path).filename().string();
    std::string name = symbol ? readable(*symbol) : fmt::format("{:#x}", address - module->base);
    if (&*module != mapped.data()) name += fmt::format(" [{}]", file);  // the first is the program
    names.push_back(std::move(name));
  }
  return names;
}

bool is_of_the_system(const std::string& function) {
  constexpr std::array kStarts = {"std::", "void std::", "__gnu_cxx::", "0x"};
  constexpr std::array kFiles = {"[libc.",      "[libpthread.", "[libm.",      "[ld-linux",
                                 "[libstdc++.", "[libgcc_s.",   "[linux-vdso", "[libc++"};
  const auto has = [&](const char* file) { return function.find(file) != std::string::npos; };
  return std::any_of(kStarts.begin(), kStarts.end(), [&](const char* start) { return function.starts_with(start); }) ||
         std::any_of(kFiles.begin(), kFiles.end(), has);
}

}  // namespace weft
