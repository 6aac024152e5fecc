// EngineStore: makes a Store usable as c10d's store. A failure that ends the Store's waits also ends waits here.
//
// Each rank in Gloo stores its address under a key that ends with its rank, and reads the others' one by one. Here, reading
// such a key also fetches its neighbours, so a group takes one trip per 64 ranks instead of two per rank.
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

  /// `what` describes the wait in errors. Each key that ends with a number below `numbered` is set once, and all of them are
  /// set before any rank reads one.
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
  bool fetch_together(const std::string& key);

  weft::Store store_;
  std::string what_;
  int numbered_;
  std::unordered_map<std::string, std::string> fetched_;  ///< fetched but not read yet
};

}  // namespace weft
