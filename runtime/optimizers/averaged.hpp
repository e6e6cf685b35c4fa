#pragma once

#include <memory>

#include "runtime/optimizers/optimizer.hpp"

namespace millrace::runtime {

/// The name of the state that has the moving average: "average/NAME" in checkpoints.
inline constexpr const char* average_name = "average";

/// The same optimizer, which also keeps an exponential moving average of every parameter that it updates (Polyak & Juditsky, 1992; as
/// torch.optim.swa_utils.AveragedModel with get_ema_multi_avg_fn): after an update average ← average + (1 − decay)·(parameter − average).
/// It begins as the parameter, and stays as it is in a step that is skipped. It is the last of the states.
[[nodiscard]] std::shared_ptr<const Optimizer> with_average(std::shared_ptr<const Optimizer> optimizer, double decay);

}  // namespace millrace::runtime
