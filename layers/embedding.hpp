#pragma once

#include <cstdint>
#include <string>

#include "runtime/program/builder.hpp"

namespace millrace::layers {

/// Rows of the table `name` [vocabulary, width] for the microbatch's tokens → [T, width] in the compute dtype.
[[nodiscard]] runtime::ValueId token_embedding(runtime::ProgramBuilder& builder, std::int64_t vocabulary, std::int64_t width,
                                               const std::string& name);

/// The learned embedding of each token's position in its document: table `name` [positions, width] → [T, width].
[[nodiscard]] runtime::ValueId position_embedding(runtime::ProgramBuilder& builder, std::int64_t positions, std::int64_t width,
                                                  const std::string& name);

}  // namespace millrace::layers
