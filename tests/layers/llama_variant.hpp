#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "layers/models/model_family.hpp"
#include "runtime/program/operation.hpp"

/// What families of tests have in common: a llama with something added, and operations without a kernel table.
namespace millrace::layers::testing {

/// A family that is a llama but for what a test overrides. It has no config.json; its keys are llama's.
class LlamaVariant : public ModelFamily {
 public:
  [[nodiscard]] const FamilyTraits& traits() const override { return traits_; }
  [[nodiscard]] ModelSpec resolve(const ModelConfig& config) const override {
    ModelConfig as_llama = config;
    as_llama.family = "llama";
    return llama().resolve(as_llama);
  }
  [[nodiscard]] Streams embed(runtime::ProgramBuilder& builder, const ModelSpec& model) const override {
    return llama().embed(builder, model);
  }
  [[nodiscard]] runtime::ValueId head(runtime::ProgramBuilder& builder, const ModelSpec& model, const Streams& in,
                                      bool want_logits) const override {
    return llama().head(builder, model, in, want_logits);
  }
  [[nodiscard]] Initial initial(const ModelSpec& model, const std::string& name, const kernels::Shape& shape) const override {
    return llama().initial(model, name, shape);
  }
  [[nodiscard]] bool recognises(runtime::JsonReader&) const override { return false; }
  void read_config(runtime::JsonReader&, ConfigFile&) const override {}
  [[nodiscard]] runtime::OrderedJson config_json(const ConfigFile&, std::string_view) const override { return {}; }

 protected:
  explicit LlamaVariant(const char* name) : traits_{.name = name} { traits_.keys = llama().traits().keys; }
  static const ModelFamily& llama() {
    static const ModelFamily& family = family_of(ModelConfig{.family = "llama"});
    return family;
  }

 private:
  FamilyTraits traits_;
};

/// Makes a family known to this process, under its traits' name; once, however often it is called.
template <class Family>
bool add_to_families() {
  static const Family family;
  static const bool added = (add_model_family(family), true);
  return added;
}

/// An operation whose loop is in its run(), for the CPU; its result has the type of its first operand.
class LoopOperation : public runtime::OperationRule {
 public:
  std::vector<runtime::ValueType> infer(std::span<const runtime::ValueType> inputs, const runtime::Attributes&) const override {
    return {inputs[0]};
  }
  runtime::Cost cost(std::span<const runtime::ValueType>, std::span<const runtime::ValueType>, const runtime::Attributes&) const override {
    return {};
  }
  runtime::KernelRows kernel_rows() const override { return {}; }
};

}  // namespace millrace::layers::testing
