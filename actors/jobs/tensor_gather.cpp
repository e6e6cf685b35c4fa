#include "actors/jobs/tensor_gather.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "kernels/base/check.hpp"

namespace millrace::actors {
namespace {

std::int64_t elements_of(const std::vector<std::int64_t>& shape) {
  std::int64_t elements = 1;
  for (const auto size : shape) elements *= size;
  return elements;
}

bool is_complete(const CapturedTensor& tensor) {
  return static_cast<std::int64_t>(tensor.values.size()) >= (tensor.count >= 0 ? tensor.count : elements_of(tensor.shape));
}

bool is_slice(const CapturedTensor& tensor) { return tensor.count >= 0 || (tensor.experts > 0 && tensor.shape.at(0) < tensor.experts); }

/// The whole tensor, from the elements that the ranks have of it.
CapturedTensor join_elements(std::vector<CapturedTensor> parts) {
  std::ranges::sort(parts, {}, &CapturedTensor::begin);
  CapturedTensor whole{parts.front().name, parts.front().shape, {}, 0, parts.front().experts};
  if (whole.experts > 0) whole.shape.at(0) = whole.experts;
  for (const CapturedTensor& part : parts) {
    MILLRACE_CHECK(part.begin == static_cast<std::int64_t>(whole.values.size()) && part.count >= 0, ExitCode::internal,
                   "actors.tensor_gather", "{}: found elements {} to {} after {}, expected every element once", part.name, part.begin,
                   part.begin + part.count - 1, whole.values.size());
    whole.values.insert(whole.values.end(), part.values.begin(), part.values.end());
  }
  MILLRACE_CHECK(static_cast<std::int64_t>(whole.values.size()) == elements_of(whole.shape), ExitCode::internal, "actors.tensor_gather",
                 "{}: found {} elements, expected {}", whole.name, whole.values.size(), elements_of(whole.shape));
  return whole;
}

/// The whole tensor, from what the ranks have of it.
CapturedTensor join_slices(std::vector<CapturedTensor> slices) {
  if (slices.front().count >= 0) return join_elements(std::move(slices));
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
