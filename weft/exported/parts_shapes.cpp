#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "weft/exported/bind_node.h"
#include "weft/exported/parts_call.h"

namespace weft {

void PartsCall::divide(const std::string& name, int64_t element) {
  call_.changes.push_back({SplitChange::Kind::divided, index_of(name), element});
}

void PartsCall::view() {
  const bool squeezes = name_ == "aten::squeeze";
  if (squeezes && argument("dim") == nullptr) fail("on a rank it may lose another dimension; give squeeze() a dimension");
  if (squeezes && argument("dim")->integers.size() == 1 && dim_of("dim", 0) == first_form().dim)
    fail("on a rank it may lose that dimension");
  const SplitForm& form = first_form();
  if (node_.outputs.empty()) fail("it makes nothing");
  const std::string& output = node_.outputs.front();
  if (state_.graph.shapes.count(output) == 0) fail("it makes no such tensor");
  const std::optional<SplitForm> result = reshaped(form, shape(taken_.front().value), shape(output));
  if (!result) fail("its parts do not stay together in this shape");
  for (const std::string name : {"size", "shape"}) {
    if (argument(name) != nullptr) divide(name, result->dim);
  }
  const int64_t element = name_ == "aten::unflatten" ? result->dim - dim_of("dim", 0) : -1;
  if (element >= 0 && argument("sizes") != nullptr && element < rank_of_list("sizes")) divide("sizes", element);
  if (name_ == "aten::view" && argument("size") == nullptr) fail("this changes its type");
  give(output, *result);
}

int64_t PartsCall::rank_of_list(const std::string& name) const {
  const ExportedArgument& list = given(name);
  return std::max(std::ssize(list.integers), std::ssize(list.values));
}

void PartsCall::expand() {
  SplitForm form = first_form();
  const int64_t rank_after = rank_of_list("size");
  form.dim += rank_after - rank(taken_.front());
  divide("size", form.dim);
  give_all(form);
}

void PartsCall::transpose() {
  SplitForm form = first_form();
  const int64_t a = dim_of("dim0", 0), b = dim_of("dim1", 1);
  form.dim = form.dim == a ? b : form.dim == b ? a : form.dim;
  give_all(form);
}

void PartsCall::permute() {
  SplitForm form = first_form();
  const std::vector<int64_t>& order = given("dims").integers;
  const auto at =
      std::find_if(order.begin(), order.end(), [&](int64_t dim) { return wrapped(dim, rank(taken_.front())) == form.dim; });
  if (at == order.end()) fail("the order lacks that dimension");
  form.dim = at - order.begin();
  give_all(form);
}

void PartsCall::without_dim() {
  SplitForm form = first_form();
  const int64_t dim = dim_of("dim", 0);
  if (dim == form.dim) fail("this takes some of it");
  form.dim -= dim < form.dim ? 1 : 0;
  give_all(form);
}

int64_t PartsCall::length(const SplitForm& form) const { return size_at(taken_.front().value, form.dim) / form.segments; }

int64_t PartsCall::segments_in(const SplitForm& form, int64_t size) const {
  if (size < 1 || size % length(form) != 0)
    fail("this takes some that is no whole segment (segments are given as \"PATTERN:SEGMENTS\")");
  return size / length(form);
}

void PartsCall::slice() {
  SplitForm form = first_form();
  if (dim_of("dim", 0) == form.dim) {
    const int64_t start = integer("start", 0), end = integer("end", std::numeric_limits<int64_t>::max());
    const bool is_whole = start % length(form) == 0 && (end == std::numeric_limits<int64_t>::max() || end % length(form) == 0);
    if (!is_whole || integer("step", 1) != 1) segments_in(form, 0);
    form.segments = node_.outputs.empty() ? 1 : segments_in(form, size_at(node_.outputs.front(), form.dim));
    for (const std::string name : {"start", "end"}) {
      if (argument(name) != nullptr && argument(name)->kind == ExportedArgument::Kind::integer) divide(name, -1);
    }
  }
  give_all(form);
}

void PartsCall::split_segments(const SplitForm& form) {
  for (const std::string& output : node_.outputs) {
    if (output.empty()) continue;
    SplitForm of_output = form;
    of_output.segments = segments_in(form, size_at(output, form.dim));
    give(output, of_output);
  }
}

void PartsCall::split() {
  const SplitForm& form = first_form();
  if (dim_of("dim", 0) != form.dim) return give_all(form);
  const bool has_sizes = argument("split_sizes") != nullptr;
  const std::string sizes = has_sizes ? "split_sizes" : "split_size";
  const ExportedArgument* const given = argument(sizes);
  if (given == nullptr || !given->values.empty()) fail("its sizes are no fixed numbers");
  for (size_t i = 0; i < given->integers.size(); ++i) {
    segments_in(form, given->integers[i]);
    divide(sizes, given->kind == ExportedArgument::Kind::integers ? static_cast<int64_t>(i) : -1);
  }
  split_segments(form);
}

void PartsCall::chunk() {
  const SplitForm& form = first_form();
  if (dim_of("dim", 0) != form.dim) return give_all(form);
  const int64_t chunks = integer("chunks", 1);
  if (chunks < 1 || form.segments % chunks != 0) segments_in(form, 0);
  split_segments(form);
}

void PartsCall::concatenate() {
  const bool are_alike =
      std::all_of(taken_.begin(), taken_.end(), [&](const Taken& x) { return rank(x) == rank(taken_.front()); });
  if (!are_alike) fail("it joins tensors of other numbers of dimensions");
  const SplitForm* form = form_of(split_taken());
  const int64_t dim = dim_of("dim", 0);
  if (dim != form->dim) return give_all(meet(rank(taken_.front())));
  SplitForm result = *form;
  result.segments = 0;
  const int64_t length_of_all = size_at(split_taken().value, dim) / form->segments;
  for (const Taken& taken : taken_) {
    const SplitForm* const here = form_of(taken);
    if (here == nullptr || here->dim != dim || size_at(taken.value, dim) != here->segments * length_of_all)
      fail("it is joined with what is not divided so");
    result.segments += here->segments;
    result.source = state_.sources.join(result.source, here->source);
  }
  give_all(result);
}

auto PartsCall::split_taken() const -> const Taken& {
  return *std::find_if(taken_.begin(), taken_.end(), [&](const Taken& x) { return form_of(x) != nullptr; });
}

void PartsCall::stack() {
  SplitForm form = meet(rank(taken_.front()));
  const int64_t dim = wrapped(integer("dim", 0), rank(taken_.front()) + 1);
  form.dim += dim <= form.dim ? 1 : 0;
  give_all(form);
}

void PartsCall::repeat() {
  if (argument("dim") == nullptr || argument("dim")->integers.empty()) fail("it is repeated as one row");
  if (dim_of("dim", 0) == first_form().dim && (taken_.size() > 1 || argument("output_size") != nullptr))
    fail("it is repeated by more than one number");
  give_all(first_form());
}

}  // namespace weft
