#include "tests/runtime/program/rig.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "kernels/base/check.hpp"
#include "kernels/packing.hpp"

namespace millrace::runtime::testing {
namespace {

/// Uniform in [-1, 1), a function of the name and the element.
float uniform(const std::string& name, std::int64_t element) {
  std::uint64_t state = 0xcbf29ce484222325ULL;
  for (const char letter : name) state = (state ^ static_cast<unsigned char>(letter)) * 0x100000001b3ULL;
  state += static_cast<std::uint64_t>(element) * 0x9e3779b97f4a7c15ULL;
  state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9ULL;
  state = (state ^ (state >> 27)) * 0x94d049bb133111ebULL;
  state ^= state >> 31;
  return static_cast<float>(static_cast<double>(state >> 11) * 0x1p-52 - 1.0);
}

}  // namespace

Rig::Rig(const SmallNet& net, Options options) : Rig(build(net), net, std::move(options)) {}

Rig::Rig(ForwardProgram program, const SmallNet& net, Options options)
    : set(differentiate(std::move(program), RematerializationPolicy::parse(options.policy, labels()))),
      team_(options.threads),
      context_(team_, options.implementation) {
  lay_out_parameters();
  const auto dtype_region = [](const Value& value) { return value.type.dtype == kernels::DType::bf16 ? Region::copy : Region::master; };
  const ParameterPlaces places{[&](const Value& value) {
                                 if (value.form != WeightForm::plain)
                                   return Place{Region::copy, parameter_bytes_ + packed_.at({value.name, value.form}).offset};
                                 const auto offset = parameters_.at(value.name).offset;
                                 return Place{dtype_region(value), value.type.dtype == kernels::DType::bf16 ? offset / 2 : offset};
                               },
                               [&](const Value& value) {
                                 return Place{Region::accumulator, accumulators_.at({value.name, value.use}).offset};
                               }};
  plan = plan_memory(set, options.mode, places, options.threads);
  allocate();
  for (const auto& [name, parameter] : parameters_) {
    const auto values = master(name);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = (parameter.vector ? 1.0F : 0.0F) + (parameter.vector ? 0.2F : 0.5F) * uniform(name, static_cast<std::int64_t>(i));
  }
  refresh();
  fill_batch(net);
  write_constants(set, plan, bindings[Region::constant]);
  *reinterpret_cast<float*>(bindings[Region::scalar]) = loss_scale;
  executor_ = std::make_unique<Executor>(set, plan);
}

void Rig::lay_out_parameters() {
  for (const auto& value : set.values) {
    lay_out_packed(value);
    Parameter parameter{0, value.type.shape.elements(), value.type.shape.rank() == 1};
    const auto bytes = kernels::align_up(static_cast<std::size_t>(parameter.elements) * sizeof(float) * 2);
    if (value.role == Role::parameter && !parameters_.contains(value.name)) {
      parameter.offset = parameter_bytes_;
      parameter_bytes_ += bytes;
      parameters_.emplace(value.name, parameter);
    } else if (value.role == Role::accumulator) {
      parameter.offset = accumulator_bytes_;
      accumulator_bytes_ += bytes;
      accumulators_.emplace(std::pair{value.name, value.use}, parameter);
    }
  }
}

void Rig::lay_out_packed(const Value& value) {
  if (value.role != Role::parameter || value.form == WeightForm::plain) return;
  if (!packed_.emplace(std::pair{value.name, value.form}, Packed{packed_bytes_, value.type}).second) return;
  packed_bytes_ += kernels::packed_bytes(value.type.shape, value.form == WeightForm::packed_turned, value.type.dtype);
}

void Rig::allocate() {
  for (std::size_t i = 0; i < region_count; ++i) {
    auto bytes = plan.region_bytes[i];
    if (static_cast<Region>(i) == Region::master) bytes = parameter_bytes_;
    if (static_cast<Region>(i) == Region::copy) bytes = parameter_bytes_ + packed_bytes_;
    if (static_cast<Region>(i) == Region::accumulator) bytes = accumulator_bytes_;
    buffers_[i] = kernels::Buffer(bytes + guard);
    bindings.base[i] = buffers_[i].data();
  }
}

void Rig::fill_batch(const SmallNet& net) {
  if (plan.region_bytes[static_cast<std::size_t>(Region::batch)] == 0) return;
  const auto field = [&](const char* name) {
    return reinterpret_cast<std::int32_t*>(bindings[Region::batch] + batch_offset(name, net.tokens()));
  };
  for (std::int64_t t = 0; t < net.tokens(); ++t) {
    const auto column = t % net.sequence;
    const bool second = column >= net.sequence / 2 && t < net.sequence;  // two documents in the first row
    field("tokens")[t] = static_cast<std::int32_t>((t * 7 + 3) % net.vocabulary);
    field("positions")[t] = static_cast<std::int32_t>(second ? column - net.sequence / 2 : column);
    field("segments")[t] = second ? 2 : 1;
    field("samples")[t] = static_cast<std::int32_t>(t / net.sequence + (second ? 7 : 3));
    field("targets")[t] = t % 5 == 2 ? -1 : static_cast<std::int32_t>((t * 5 + 1) % net.vocabulary);
  }
}

void Rig::run(ProgramKind kind, OperationHook* hook) { executor_->run(kind, context_, bindings, hook); }

void Rig::run_segment(ProgramKind kind, std::size_t segment, ExchangePort* port, OperationHook* hook) {
  executor_->run_segment(kind, segment, context_, bindings, hook, port);
}

void Rig::run_backward(OperationHook* hook) {
  if (plan.mode == BackwardMode::fused) return run(ProgramKind::backward, hook);
  run(ProgramKind::input_gradient, hook);
  run(ProgramKind::weight_gradient, hook);
}

double Rig::loss() { return reinterpret_cast<const double*>(bindings[Region::result])[0]; }

std::span<float> Rig::master(const std::string& name) {
  const auto& parameter = parameters_.at(name);
  return {reinterpret_cast<float*>(bindings[Region::master] + parameter.offset), static_cast<std::size_t>(parameter.elements)};
}

void Rig::refresh() {
  for (const auto& [name, parameter] : parameters_) {
    auto* copy = reinterpret_cast<kernels::BFloat16*>(bindings[Region::copy] + parameter.offset / 2);
    const auto values = master(name);
    for (std::size_t i = 0; i < values.size(); ++i) copy[i] = kernels::to_bfloat16(values[i]);
  }
  for (const auto& [key, packed] : packed_) {
    const auto offset = parameters_.at(key.first).offset;
    auto* data = packed.type.dtype == kernels::DType::bf16 ? bindings[Region::copy] + offset / 2 : bindings[Region::master] + offset;
    kernels::pack(context_, {data, packed.type.dtype, packed.type.shape, kernels::MemorySpace::host},
                  key.second == WeightForm::packed_turned, bindings[Region::copy] + parameter_bytes_ + packed.offset);
  }
}

std::map<std::pair<std::string, int>, std::vector<float>> Rig::accumulators() {
  std::map<std::pair<std::string, int>, std::vector<float>> result;
  for (const auto& [key, slot] : accumulators_) {
    const auto* data = reinterpret_cast<const float*>(bindings[Region::accumulator] + slot.offset);
    result[key].assign(data, data + slot.elements);
  }
  return result;
}

void Rig::fill(Region which, std::byte pattern) {
  const auto bytes = region(which);
  std::memset(bytes.data(), static_cast<int>(pattern), bytes.size());
}

void run(Rig& rig) {
  rig.run(ProgramKind::forward);
  rig.run_backward();
}

std::vector<ValueType> inferred_types(const Operation& operation, const std::vector<ValueType>& inputs) {
  try {
    return operation.rule->infer(inputs, operation.attributes);
  } catch (const Error&) {
    return {};
  }
}

}  // namespace millrace::runtime::testing
