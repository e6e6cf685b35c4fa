#pragma once

#include "runtime/program/program.hpp"

namespace millrace::runtime {

/// Lets every product add the bias that alone reads it, where the device's products do that on their way out: two operations become one,
/// with the product's name and the sum's result. In F and I, where recomputed ones stand.
void fuse_bias(ProgramSet& set, kernels::Device device);

}  // namespace millrace::runtime
