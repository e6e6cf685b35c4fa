#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/program/value.hpp"

namespace millrace::runtime {

/// The name of a model's residual stream, and of the only port where a stage has one.
inline constexpr std::string_view hidden_port = "hidden";

/// A named tensor that crosses the boundary between two stages. The ports of a boundary are ordered, and the stages on both sides have the
/// same ones.
struct Port {
  std::string name;
  ValueId value;     // the activation, in the programs of this stage
  ValueId gradient;  // its gradient, of the same type; invalid before differentiate(), without a backward, and for integers
};

/// Whether tensors of this type have gradients: f32 and bf16.
[[nodiscard]] bool has_gradient(const ValueType& type) noexcept;

/// Where the ports of one boundary lie in a slot of a ring: one after another, each at a multiple of kernels::kAlignment. This is the only
/// rule, so the slot that a stage fills and the slot that its neighbour reads are laid out alike.
struct SlotLayout {
  std::vector<std::size_t> offsets;  // by port, in bytes
  std::size_t bytes = 0;             // of the whole slot; the last port is not padded
};

/// The layout of activations: every port.
[[nodiscard]] SlotLayout activation_slot(std::span<const ValueType> ports);
/// The layout of gradients: ports without a gradient take no bytes.
[[nodiscard]] SlotLayout gradient_slot(std::span<const ValueType> ports);

/// The name of a port's value in a stage's programs: `place` ("boundary_in", "gradient_out") for the port `hidden`, "boundary_in.keys" for
/// a port `keys`. Recordings, the debugger and the printed programs use it.
[[nodiscard]] std::string port_value_name(std::string_view place, std::string_view port);

}  // namespace millrace::runtime
