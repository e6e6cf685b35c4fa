#include "runtime/engine/wait.hpp"

namespace millrace::runtime {

const char* to_string(WaitReason reason) {
  switch (reason) {
    case WaitReason::none:
      return "none";
    case WaitReason::activation:
      return "activation";
    case WaitReason::gradient:
      return "gradient";
    case WaitReason::credit:
      return "credit";
    case WaitReason::batch:
      return "batch";
    case WaitReason::exchange:
      return "exchange";
    case WaitReason::compute:
      return "compute";
    case WaitReason::weights:
      return "weights";
    case WaitReason::replicas:
      return "replicas";
  }
  return "?";
}

std::string describe(const Wait& wait) {
  switch (wait.reason) {
    case WaitReason::none:
      return fmt::format("rank {} waits for nothing", wait.rank);
    case WaitReason::compute:
      return fmt::format("rank {} runs {}", wait.rank, wait.action);
    case WaitReason::batch:
      return fmt::format("rank {} waits for the batch of microbatch {}, before {}", wait.rank, wait.action.microbatch, wait.action);
    case WaitReason::exchange:
      return fmt::format("rank {} waits for exchange {} with the owners of experts, before segment {} of {}", wait.rank, wait.exchange,
                         wait.segment, wait.action);
    case WaitReason::weights:
      return fmt::format("rank {} waits for parameters of stage {} from ranks that hold the same weights, before {}", wait.rank,
                         wait.action.stage, wait.action);
    case WaitReason::replicas:
      return fmt::format("rank {} waits for ranks that hold the same weights", wait.rank);
    case WaitReason::credit:
      return fmt::format("rank {} waits for a free slot towards stage {} on rank {}, before {}", wait.rank, wait.stage, wait.peer,
                         wait.action);
    case WaitReason::activation:
    case WaitReason::gradient:
      return fmt::format("rank {} waits for the {} of microbatch {} from stage {} on rank {}, before {}", wait.rank, to_string(wait.reason),
                         wait.action.microbatch, wait.stage, wait.peer, wait.action);
  }
  return "?";
}

}  // namespace millrace::runtime
