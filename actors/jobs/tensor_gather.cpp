#include "actors/jobs/tensor_gather.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "kernels/base/check.hpp"

namespace millrace::actors {
namespace {

bool is_complete(const CapturedTensor& tensor) {
  std::int64_t elements = 1;
  for (const auto size : tensor.shape) elements *= size;
  return static_cast<std::int64_t>(tensor.values.size()) >= elements;
}

bool is_slice(const CapturedTensor& tensor) { return tensor.experts > 0 && tensor.shape.at(0) < tensor.experts; }

/// The whole tensor, from what the ranks have of it.
CapturedTensor join_slices(std::vector<CapturedTensor> slices) {
  std::ranges::sort(slices, {}, &CapturedTensor::first);
  CapturedTensor whole{slices.front().name, slices.front().shape, {}, 0, slices.front().experts};
  std::int64_t next = 0;
  for (const CapturedTensor& slice : slices) {
    MILLRACE_CHECK(slice.first == next && slice.experts == whole.experts, ExitCode::internal, "actors.tensor_gather",
                   "{}: found experts {} to {} of {} after {} of {}, expected every expert once", slice.name, slice.first,
                   slice.first + slice.shape.at(0) - 1, slice.experts, next, whole.experts);
    next += slice.shape.at(0);
    whole.values.insert(whole.values.end(), slice.values.begin(), slice.values.end());
  }
  MILLRACE_CHECK(next == whole.experts, ExitCode::internal, "actors.tensor_gather", "{}: found {} experts, expected {}", whole.name, next,
                 whole.experts);
  whole.shape.at(0) = whole.experts;
  return whole;
}

}  // namespace

void TensorGather::add(const Collected& collected) {
  const auto [newest, is_new] = newest_.emplace(collected.rank, tensors_.size());
  if (is_new || is_complete(tensors_[newest->second])) {
    newest->second = tensors_.size();
    return tensors_.push_back(collected.tensor);
  }
  auto& values = tensors_[newest->second].values;
  values.insert(values.end(), collected.tensor.values.begin(), collected.tensor.values.end());
}

std::vector<CapturedTensor> TensorGather::take() {
  newest_.clear();
  std::vector<CapturedTensor> whole;
  std::map<std::string, std::pair<std::size_t, std::vector<CapturedTensor>>> slices;  // and the place of the tensor among the others
  for (CapturedTensor& tensor : std::exchange(tensors_, {})) {
    if (!is_slice(tensor)) {
      whole.push_back(std::move(tensor));
      continue;
    }
    auto& [place, found] = slices.try_emplace(tensor.name, whole.size(), std::vector<CapturedTensor>()).first->second;
    if (found.empty()) whole.emplace_back();
    found.push_back(std::move(tensor));
  }
  for (auto& [name, placed] : slices) whole[placed.first] = join_slices(std::move(placed.second));
  return whole;
}

}  // namespace millrace::actors
