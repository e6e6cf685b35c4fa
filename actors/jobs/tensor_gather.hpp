#pragma once

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "actors/messages/messages.hpp"

namespace millrace::actors {

/// Assembles the tensors that ranks send in response to Collect: one message per tensor, or several with its values in order.
class TensorGather {
 public:
  /// Adds a message other than the rank's last one, which carries no tensor.
  void add(const Collected& collected) {
    const auto [newest, is_new] = newest_.emplace(collected.rank, tensors_.size());
    if (is_new || is_whole(tensors_[newest->second])) {
      newest->second = tensors_.size();
      return tensors_.push_back(collected.tensor);
    }
    auto& values = tensors_[newest->second].values;
    values.insert(values.end(), collected.tensor.values.begin(), collected.tensor.values.end());
  }
  /// Returns the tensors in the order of their first messages, and empties the object.
  [[nodiscard]] std::vector<CapturedTensor> take() {
    newest_.clear();
    return std::exchange(tensors_, {});
  }

 private:
  static bool is_whole(const CapturedTensor& tensor) {
    std::int64_t elements = 1;
    for (const auto size : tensor.shape) elements *= size;
    return static_cast<std::int64_t>(tensor.values.size()) >= elements;
  }
  std::vector<CapturedTensor> tensors_;
  std::map<int, std::size_t> newest_;  // by rank: index of the tensor in its newest message
};

}  // namespace millrace::actors
