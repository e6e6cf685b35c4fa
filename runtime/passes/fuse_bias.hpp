#pragma once

#include "runtime/program/program.hpp"

namespace millrace::runtime {

/// Lets every product of the forward add the bias that alone reads it, where products_add_bias says so: two operations become one, with the
/// product's name and the sum's result, which takes the product's labels; in bf16 it is then rounded once instead of twice. Done before
/// anything is derived from the forward, so that what is recomputed has the same bits.
void fuse_bias(ProgramSet& set, kernels::Device device);

}  // namespace millrace::runtime
