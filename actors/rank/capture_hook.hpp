#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "actors/messages/messages.hpp"
#include "actors/rank/rank.hpp"

namespace millrace::actors {

/// Captures, for each microbatch, hidden states as the reference of the model's numerics numbers them, the loss's two sums
/// ("loss_sums") and the logits. transformers: "hidden.<layer>" is the input of the layer, "hidden.<layers>" the output of the
/// final norm; MaxText: "hidden.<layer>" is the output of the layer. The names end in "/<microbatch>". Written on the rank's
/// worker; may be read while nothing runs.
class CaptureHook : public runtime::OperationHook {
 public:
  explicit CaptureHook(const Rank& rank) : rank_(rank) {}
  void before(const Call& call) override;
  void after(const Call& call) override;

  [[nodiscard]] std::vector<CapturedTensor> take();

 private:
  void keep(const std::string& name, const kernels::Tensor& tensor);
  [[nodiscard]] bool counts_outputs() const { return rank_.plan().model.numerics == "maxtext"; }
  const Rank& rank_;
  std::int64_t logits_microbatch_ = 0;
  std::map<std::string, CapturedTensor> kept_;
};

}  // namespace millrace::actors
