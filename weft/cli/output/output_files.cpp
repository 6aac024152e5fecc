#include "weft/cli/output/output_files.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <map>

#include "weft/base/error.h"
#include "weft/base/printable.h"
#include "weft/recipe/read/recipe_paths.h"

namespace weft {

CLI::Option* add_output(CLI::App& command, const std::string& option, std::string& path, const std::string& meaning) {
  return command.add_option(option, path, meaning)->check([](const std::string& given) {
    return given.empty() ? std::string("the name of the file is empty") : std::string();
  });
}

void check_weights_name(const std::string& option, const std::string& path) {
  const std::string ending = std::filesystem::path(path).extension().string();
  for (const char* other : {".pt", ".pth", ".bin", ".ckpt"}) {
    if (ending != other) continue;
    throw InputError(
        fmt::format("{} {}: weft writes safetensors (PyTorch: safetensors.torch.load_file); use a name that ends with "
                    ".safetensors",
                    option, shortened(path)));
  }
}

void check_different_files(const NamedFiles& files) {
  std::map<std::filesystem::path, std::string> names;
  for (const auto& [name, path] : files) {
    if (path.empty()) continue;
    std::error_code code;
    const std::filesystem::path file = std::filesystem::weakly_canonical(path, code);
    const auto [other, is_new] = names.try_emplace(code ? std::filesystem::path(path) : file, name);
    if (is_new) continue;
    throw InputError(fmt::format("{} and {} are the same file, {}; choose another", other->second, name, path));
  }
}

void check_not_read(const Recipe& recipe, NamedFiles read, const NamedFiles& written) {
  for (const RecipePath& path : recipe_paths(recipe)) {
    if (!path.is_kept) read.emplace_back(path.key, path.path);
  }
  check_different_files(written);
  for (const auto& input : read) {
    NamedFiles all = written;
    all.insert(all.begin(), input);
    check_different_files(all);
  }
}

}  // namespace weft
