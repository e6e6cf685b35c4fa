#include "runtime/program/port.hpp"

#include "kernels/base/buffer.hpp"
#include "runtime/program/memory_plan.hpp"

namespace millrace::runtime {
namespace {

SlotLayout lay_out(std::span<const ValueType> ports, bool gradients) {
  SlotLayout slot;
  for (const ValueType& type : ports) {
    const std::size_t begin = kernels::align_up(slot.bytes);
    slot.offsets.push_back(begin);
    if (!gradients || has_gradient(type)) slot.bytes = begin + bytes_of(type);
  }
  return slot;
}

}  // namespace

bool has_gradient(const ValueType& type) noexcept { return type.dtype == kernels::DType::f32 || type.dtype == kernels::DType::bf16; }

SlotLayout activation_slot(std::span<const ValueType> ports) { return lay_out(ports, false); }

SlotLayout gradient_slot(std::span<const ValueType> ports) { return lay_out(ports, true); }

std::string port_value_name(std::string_view place, std::string_view port) {
  std::string name(place);
  if (port != hidden_port) name.append(".").append(port);
  return name;
}

}  // namespace millrace::runtime
