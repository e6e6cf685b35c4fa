#pragma once

#include "actors/pipeline.hpp"

namespace millrace::tests {

/// Each hosted rank holds the weights of its own stages, no others, and moments and gradients of the same size.
void expect_own_parameters_alone(actors::Pipeline& pipeline);

/// Over `steps` steps each channel with an end here has carried one message of `boundary` bytes a microbatch: forward and back, 2 · M ·
/// boundary a step.
void expect_boundary_traffic(actors::Pipeline& pipeline, std::int64_t steps, std::int64_t boundary);

}  // namespace millrace::tests
