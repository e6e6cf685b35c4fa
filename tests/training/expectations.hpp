#pragma once

#include "actors/pipeline.hpp"

namespace millrace::tests {

/// Checks that each hosted rank holds the weights of its own stages and no others, with optimizer states and gradients of the
/// same size.
void expect_own_parameters_alone(actors::Pipeline& pipeline);

/// Checks that over `steps` steps each channel with an end here has carried one message of `boundary` bytes per microbatch:
/// forward and back, 2 · M · boundary per step.
void expect_boundary_traffic(actors::Pipeline& pipeline, std::int64_t steps, std::int64_t boundary);

}  // namespace millrace::tests
