#pragma once

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "actors/messages/messages.hpp"
#include "actors/rank/rank.hpp"

namespace millrace::actors {

/// The experts that routers chose and the keys that indexers chose, by "<operation>/<microbatch>" of a training step and
/// "<operation>/logits/<number>" of passes for logits.
using RouterChoices = std::map<std::string, std::vector<std::int32_t>>;

/// Captures, for each microbatch, hidden states as the reference of the model's numerics numbers them, the loss's two sums
/// ("loss_sums") and the logits. transformers: "hidden.<layer>" is the input of the layer, "hidden.<layers>" the output of the
/// final norm; MaxText: "hidden.<layer>" is the output of the layer. The names end in "/<microbatch>". Written on the rank's
/// worker; may be read while nothing runs.
/// It also records the choices of routers and indexers, or imposes those of another run: a rounding error may change a choice, and then
/// everything behind it differs, so that nothing could be said about the rounding errors of the rest.
class CaptureHook : public runtime::OperationHook {
 public:
  /// With `imposed`, which must outlive this object, routers and indexers choose these. Error(internal) if a choice is missing.
  explicit CaptureHook(const Rank& rank, const RouterChoices* imposed = nullptr) : rank_(rank), imposed_(imposed) {}
  [[nodiscard]] Sight sight() const override { return imposed_ != nullptr ? Sight::copies_that_go_back : Sight::copies; }
  void before(const Call& call) override;
  void after(const Call& call) override;

  [[nodiscard]] std::vector<CapturedTensor> take();
  [[nodiscard]] RouterChoices take_choices() { return std::exchange(choices_, {}); }

 private:
  void keep(const std::string& name, const kernels::Tensor& tensor);
  /// Records a choice, or replaces it by the imposed one, and then returns true.
  bool exchange_choice(const Call& call, const kernels::Tensor& choice);
  void route(const Call& call);
  void choose_keys(const Call& call);
  /// Whether a training step runs; before the last stage logits are computed by evaluations.
  [[nodiscard]] bool trains() const {
    return rank_.running().pass != runtime::Pass::evaluate && rank_.running().pass != runtime::Pass::logits;
  }
  [[nodiscard]] bool counts_outputs() const { return rank_.plan().model.numerics == "maxtext"; }
  const Rank& rank_;
  std::int64_t logits_microbatch_ = 0;
  std::map<std::string, CapturedTensor> kept_;
  const RouterChoices* imposed_;
  RouterChoices choices_;
  std::map<std::string, int> logits_passes_;  // the number of passes for logits so far, by the operation that chooses
};

}  // namespace millrace::actors
