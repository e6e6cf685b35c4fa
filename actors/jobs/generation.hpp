#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "actors/jobs/forward_job.hpp"
#include "actors/sampler.hpp"
#include "actors/setup/session.hpp"

namespace millrace::actors {

/// What generate() does. The job's microbatch has one row, with room for the prompt and all new tokens but the last, which is never an
/// input.
struct GenerationSettings {
  std::vector<std::int32_t> prompt;  // one token or more, all below the model's vocab_size
  std::int64_t tokens = 1;           // largest number of new tokens, 1 or more
  Sampling sampling;
  /// Called in process 0, on the driver's thread, with each new token in order. If it returns false, that token is the last. It may throw
  /// Error, which ends the job.
  std::function<bool(std::int32_t token)> token;
};

/// The number of new tokens, and the time from the request for the first forward pass to the last token.
struct Generated {
  std::int64_t tokens = 0;
  double seconds = 0;
};

/// Continues the prompt. For each new token it runs a forward pass of the whole row through the pipeline; nothing is cached. The random
/// number for a token depends on its index in the text (the prompt's first token has 0) and on the seed alone, so a layout that gives the
/// same logits gives the same text. Collective; the session must be connected. Returns zeros in all processes but process 0. Errors:
/// Error(start), Error(config), Error(model), Error(checkpoint), Error(data) for the compressed ids, and Error(numerics) if logits are not
/// finite.
Generated generate(Session& session, const ForwardJob& job, const GenerationSettings& settings);

}  // namespace millrace::actors
