#pragma once

#include <map>
#include <vector>

#include "actors/messages/messages.hpp"

namespace millrace::actors {

/// Assembles the tensors that ranks send in response to Collect: one message per tensor, or several with its values in order. Weights of
/// experts that several ranks have some of become whole, and so do tensors of which several ranks have some elements.
class TensorGather {
 public:
  /// Adds a message other than the rank's last one, which carries no tensor.
  void add(const Collected& collected);
  /// Returns the tensors in the order of their first messages, and empties the object. Throws Error(internal), naming the tensor, for
  /// experts or elements that no rank has sent or several have.
  [[nodiscard]] std::vector<CapturedTensor> take();

 private:
  std::vector<CapturedTensor> tensors_;
  std::map<int, std::size_t> newest_;  // by rank: index of the tensor in its newest message
};

}  // namespace millrace::actors
