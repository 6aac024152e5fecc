// EngineStore: a Store as c10d's engines want it. Its waits end with the failure that ends the Store's too.
//
// Gloo's ranks put their addresses under keys that end with their numbers, and ask for one after another. Here one such key
// brings those of its neighbours along, so that a group takes a trip for every 64 ranks, not two for each.
#pragma once

#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <unordered_map>
#include <vector>

#include "weft/comm/store/store.h"

namespace weft {

class EngineStore : public c10d::Store {
 public:
  using Bytes = std::vector<uint8_t>;
  using Keys = std::vector<std::string>;
  using Milliseconds = std::chrono::milliseconds;

  /// `what` says in errors what is waited for.
  /// Keys that end with a number below `numbered` are set once, by all, before anybody asks for them.
  EngineStore(weft::Store store, Milliseconds timeout, std::string what, int numbered = 0);

  c10::intrusive_ptr<c10d::Store> clone() override;
  void set(const std::string& key, const Bytes& value) override;
  Bytes compareSet(const std::string& key, const Bytes& expected, const Bytes& desired) override;
  Bytes get(const std::string& key) override;
  int64_t add(const std::string& key, int64_t value) override;
  bool deleteKey(const std::string& key) override;
  bool check(const Keys& keys) override;
  int64_t getNumKeys() override;
  void wait(const Keys& keys) override;
  void wait(const Keys& keys, const Milliseconds& timeout) override;
  void append(const std::string& key, const Bytes& value) override;
  std::vector<Bytes> multiGet(const Keys& keys) override;
  void multiSet(const Keys& keys, const std::vector<Bytes>& values) override;
  bool hasExtendedApi() const override { return true; }

 private:
  template <class Call>
  auto ask(const std::string& key, Call call);
  Keys whole(const Keys& keys) const;
  bool bring(const std::string& key);

  weft::Store store_;
  std::string what_;
  int numbered_;
  std::unordered_map<std::string, std::string> brought_;  ///< and not asked for yet
};

}  // namespace weft
