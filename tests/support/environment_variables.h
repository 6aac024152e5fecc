// EnvironmentVariables: sets the environment for a test, and restores it afterwards.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::test {

/// Sets variables, after removing all that begin as launchers' variables do; the destructor restores everything.
class EnvironmentVariables {
 public:
  explicit EnvironmentVariables(const std::vector<std::pair<std::string, std::string>>& variables) {
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string text = *entry;
      const size_t end = text.find('=');
      if (is_launchers(text.substr(0, end))) before_.emplace_back(text.substr(0, end), text.substr(end + 1));
    }
    for (const auto& [name, value] : before_) ::unsetenv(name.c_str());
    for (const auto& [name, value] : variables) {
      set_.push_back(name);
      ::setenv(name.c_str(), value.c_str(), 1);
    }
  }
  ~EnvironmentVariables() {
    for (const std::string& name : set_) ::unsetenv(name.c_str());
    for (const auto& [name, value] : before_) ::setenv(name.c_str(), value.c_str(), 1);
  }
  EnvironmentVariables(const EnvironmentVariables&) = delete;
  EnvironmentVariables& operator=(const EnvironmentVariables&) = delete;

 private:
  static bool is_launchers(std::string_view name) {
    for (const std::string_view begin :
         {"SLURM_", "OMPI_", "PMIX_", "PMI_", "MPI_", "MASTER_", "TORCHELASTIC_", "WEFT_", "LOCAL_"}) {
      if (name.starts_with(begin)) return true;
    }
    return name == "RANK" || name == "WORLD_SIZE";
  }

  std::vector<std::string> set_;
  std::vector<std::pair<std::string, std::string>> before_;
};

}  // namespace weft::test
