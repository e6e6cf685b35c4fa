#include "kernels/base/check.hpp"
#include "runtime/program/operation.hpp"

namespace millrace::runtime {
namespace {

constexpr const char* who = "runtime.program";

const Attributes::Entry& find(const std::vector<std::pair<std::string, Attributes::Entry>>& entries, std::string_view name) {
  for (const auto& [key, entry] : entries)
    if (key == name) return entry;
  fail(ExitCode::internal, who, "the operation has no attribute '{}'", name);
}

}  // namespace

std::int64_t Attributes::integer(std::string_view name) const {
  const auto* value = std::get_if<std::int64_t>(&find(entries_, name));
  MILLRACE_CHECK(value != nullptr, ExitCode::internal, who, "attribute '{}' is real, expected an integer", name);
  return *value;
}

double Attributes::real(std::string_view name) const {
  const auto* value = std::get_if<double>(&find(entries_, name));
  MILLRACE_CHECK(value != nullptr, ExitCode::internal, who, "attribute '{}' is an integer, expected a real number", name);
  return *value;
}

void OperationRule::input_gradient(GradientBuilder&) const {}

void OperationRule::weight_gradient(GradientBuilder&) const {}

std::size_t OperationRule::scratch_bytes(std::span<const ValueType>, std::span<const ValueType>, const Attributes&,
                                         const kernels::Processor&) const {
  return 0;
}

std::string_view OperationRule::output_suffix(std::size_t i) const { return i == 0 ? "" : "second"; }

const OperationRule* OperationRule::fused_with(const OperationRule&) const { return nullptr; }

}  // namespace millrace::runtime
