// Gloo as c10d provides it, without the additions of weft's Gloo backend (its thread, the comparison of calls).
#pragma once

#include <fmt/format.h>

#include <vector>

#include "weft/comm/c10d/gloo_engine.h"
#include "weft/comm/mesh.h"

namespace weft::bench {

class PlainGloo {
 public:
  explicit PlainGloo(const Mesh& mesh) {
    const Axis axis = mesh.axis("all");
    std::vector<std::string> hosts;
    for (int rank : axis.ranks) hosts.push_back(mesh.world().host(rank));
    engine_ = GlooEngine::connect({axis, hosts, mesh.world().store().below(fmt::format("plain/{}", axis.size())), {}});
  }
  void all_reduce(const at::Tensor& tensor) {
    std::vector<at::Tensor> tensors{tensor};
    engine_->allreduce(tensors)->wait();
  }
  void reduce_scatter(at::Tensor output, at::Tensor input) { engine_->_reduce_scatter_base(output, input)->wait(); }
  void all_gather(at::Tensor output, at::Tensor input) { engine_->_allgather_base(output, input)->wait(); }

 private:
  c10::intrusive_ptr<GlooEngine> engine_;
};

}  // namespace weft::bench
