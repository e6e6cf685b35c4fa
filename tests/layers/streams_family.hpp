#pragma once

#include <string>

#include "kernels/reference/element.hpp"
#include "runtime/program/gradient_builder.hpp"
#include "runtime/program/operations.hpp"
#include "tests/layers/llama_variant.hpp"

/// A llama with four streams, as models with several residual streams, shared keys or features of an image have them: the smallest family
/// that hands on tensors of different widths and types, some of which pass layers unchanged or end before the head. D: hidden_size.
///
///   classes [T] i32     a class of each token, from the embedding to the head; layer 3 reads it
///   hidden [T, D]       the residual stream of llama
///   early [T, D]        the embedding, to layer 2; layer 1 adds it, layer 2 receives it and does nothing with it
///   side [T, D / 2]     a narrow projection of the embedding; layer 2 adds to it, layer 3 and the head read it
namespace millrace::layers::testing {

/// tokens i32 [T] → token mod 3, i32 [T].
class Classes final : public LoopOperation {
 public:
  std::string_view name() const override { return "classes"; }
  void run(const kernels::ExecutionContext&, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const runtime::Attributes&, kernels::Scratch) const override {
    for (std::int64_t i = 0; i < inputs[0].elements(); ++i) outputs[0].as<std::int32_t>()[i] = inputs[0].as<std::int32_t>()[i] % 3;
  }
};

/// x [T, D], classes i32 [T] → x, halved in rows of class 0. Its gradient is the same function of the result's gradient.
class HalveClass final : public LoopOperation {
 public:
  std::string_view name() const override { return "halve_class"; }
  void input_gradient(runtime::GradientBuilder& builder) const override {
    if (builder.wants(0)) builder.add_gradient(0, builder.append(*this, {builder.output_gradient(0), builder.input(1)}, {}, "dx")[0]);
  }
  void run(const kernels::ExecutionContext&, std::span<const kernels::Tensor> inputs, std::span<const kernels::Tensor> outputs,
           const runtime::Attributes&, kernels::Scratch) const override {
    const std::int64_t width = inputs[0].shape[1];
    for (std::int64_t i = 0; i < inputs[0].elements(); ++i) {
      const float factor = inputs[1].as<std::int32_t>()[i / width] == 0 ? 0.5F : 1.0F;
      kernels::reference::store(outputs[0], i, factor * kernels::reference::load(inputs[0], i));
    }
  }
};

class StreamsFamily final : public LlamaVariant {
 public:
  StreamsFamily() : LlamaVariant("streams") {}
  [[nodiscard]] std::vector<StreamSpec> streams(const ModelSpec& model, int index) const override {
    std::vector<StreamSpec> streams{{"classes", {}, kernels::DType::i32}, {.axes = {model.width}}};
    if (index <= 2) streams.push_back({.name = "early", .axes = {model.width}});
    streams.push_back({.name = "side", .axes = {model.width / 2}});
    return streams;
  }
  [[nodiscard]] Streams embed(runtime::ProgramBuilder& builder, const ModelSpec& model) const override {
    static const Classes classes;
    const runtime::ValueId x = llama().embed(builder, model);
    Streams out(x);
    out.set("early", x);
    out.set("side", narrow(builder, model, x, "side"));
    out.set("classes", builder.append(classes, {builder.batch("tokens")}, {}, "classes")[0]);
    return out;
  }
  [[nodiscard]] Streams layer(runtime::ProgramBuilder& builder, const ModelSpec& model, int index, const Streams& in) const override {
    static const HalveClass halve_class;
    Streams out = in;
    runtime::ValueId y = llama().layer(builder, model, index, in.at("hidden"));
    if (index == 1) y = runtime::add(builder, y, in.at("early"), "early_sum");
    if (index == 2) {
      out.erase("early");
      out.set("side", runtime::add(builder, in.at("side"), narrow(builder, model, y, "side_in"), "side_sum"));
    }
    if (index == 3) {
      const runtime::ValueId wide = widen(builder, model, in.at("side"), "side_out");
      y = runtime::add(builder, y, builder.append(halve_class, {wide, in.at("classes")}, {}, "halve")[0], "side_out_sum");
    }
    out.set("hidden", y);
    return out;
  }
  [[nodiscard]] runtime::ValueId head(runtime::ProgramBuilder& builder, const ModelSpec& model, const Streams& in,
                                      bool want_logits) const override {
    const runtime::ValueId x = runtime::add(builder, in.at("hidden"), widen(builder, model, in.at("side"), "side_head"), "side_head_sum");
    return llama().head(builder, model, x, want_logits);
  }
  [[nodiscard]] Initial initial(const ModelSpec& model, const std::string& name, const kernels::Shape& shape) const override {
    return name.starts_with("side") ? Initial{InitialKind::normal, 0.3} : llama().initial(model, name, shape);
  }

 private:
  static runtime::ValueId narrow(runtime::ProgramBuilder& builder, const ModelSpec& model, runtime::ValueId x, const std::string& name) {
    return runtime::linear(builder, x, builder.parameter(name + ".weight", {model.width / 2, model.width}), name);
  }
  static runtime::ValueId widen(runtime::ProgramBuilder& builder, const ModelSpec& model, runtime::ValueId x, const std::string& name) {
    return runtime::linear(builder, x, builder.parameter(name + ".weight", {model.width, model.width / 2}), name);
  }
};

}  // namespace millrace::layers::testing
