#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "layers/models/boundary.hpp"
#include "tests/layers/model_fixture.hpp"
#include "tests/layers/streams_family.hpp"
#include "tests/support/expect_error.hpp"

// Models whose layers hand on several streams: their ports, their gradients, and the bits of both wherever the model is cut.
namespace millrace::layers::testing {
namespace {

ModelConfig with_streams(bool tied = false) {
  add_to_families<StreamsFamily>();
  ModelConfig config = tiny_model(tied);
  config.family = "streams";
  return config;
}

TEST(Streams, AreFoundByNameAndOneIsAValue) {
  const runtime::ValueId hidden{3}, keys{5};
  Streams streams(hidden);
  EXPECT_EQ(runtime::ValueId(streams), hidden);
  streams.set("keys", keys);
  EXPECT_EQ(streams.at("keys"), keys);
  streams.set("keys", hidden);
  EXPECT_EQ(streams.all().size(), 2U);
  EXPECT_EQ(streams.at("keys"), hidden);
  tests::expect_error([&] { static_cast<void>(runtime::ValueId(streams)); }, ExitCode::internal, {"one stream", "2: hidden, keys"});
  tests::expect_error([&] { static_cast<void>(streams.at("values")); }, ExitCode::internal, {"'values'", "hidden, keys"});
  tests::expect_error([&] { streams.erase("values"); }, ExitCode::internal, {"'values'", "hidden, keys"});
  streams.erase("hidden");
  EXPECT_EQ(streams.all().size(), 1U);
  tests::expect_error([&] { static_cast<void>(runtime::ValueId(streams)); }, ExitCode::internal, {"'hidden'", "keys"});
}

TEST(Streams, ArePortsInTheOrderOfTheFamily) {
  const ModelConfig config = with_streams();
  StageOptions options{kernels::DType::bf16, 2, 12};
  const auto names = [](const std::vector<runtime::Port>& ports) {
    std::vector<std::string> all;
    for (const auto& port : ports) all.push_back(port.name);
    return all;
  };
  const auto types = [](const runtime::ForwardProgram& program, const std::vector<runtime::Port>& ports) {
    std::vector<runtime::ValueType> all;
    for (const auto& port : ports) all.push_back(program.value(port.value).type);
    return all;
  };
  using kernels::DType;
  const std::vector<runtime::ValueType> wide{{DType::i32, {24}}, {DType::bf16, {24, 24}}, {DType::bf16, {24, 24}}, {DType::bf16, {24, 12}}};
  EXPECT_EQ(boundary_types(config, 0, options), wide);
  EXPECT_EQ(boundary_types(config, 2, options), wide);
  EXPECT_EQ(boundary_types(config, 3, options), (std::vector{wide[0], wide[1], wide[3]}));
  for (int cut = 0; cut <= 4; ++cut) {
    const auto before = build_stage(config, {true, 0, cut, false}, options),
               after = build_stage(config, {false, cut, 4 - cut, true}, options);
    const std::vector<std::string> expected =
        cut <= 2 ? std::vector<std::string>{"classes", "hidden", "early", "side"} : std::vector<std::string>{"classes", "hidden", "side"};
    EXPECT_EQ(names(before.outputs), expected) << cut;
    EXPECT_EQ(names(after.inputs), expected) << cut;
    EXPECT_EQ(types(before, before.outputs), boundary_types(config, cut, options)) << cut;
    EXPECT_EQ(types(after, after.inputs), boundary_types(config, cut, options)) << cut;
    EXPECT_TRUE(before.inputs.empty() && after.outputs.empty());
  }
}

TEST(Streams, GradientsAreSlopesOfTheLoss) {
  for (const char* layout : {"", "E t | t*2 | | t H", "E t*2 | t | t | H"}) {
    auto options = tiny_loop();
    options.implementation = kernels::Implementation::reference;
    options.layout = layout;
    Model model(with_streams(), options);
    model.initialise(3);
    (void)model.loop().accumulate(model.context(), tiny_microbatches, tiny_targets, tiny_batches());
    for (const auto& spec : model_parameters(model.config())) {
      const bool stream = spec.name.starts_with("side");
      if (!stream && spec.name != "model.embed_tokens.weight" && spec.name != "model.layers.0.mlp.up_proj.weight") continue;
      const auto gradient = model.gradient(spec.name);
      const auto place = model.master(spec.name);
      const std::vector<float> before(place.begin(), place.end());
      // Along the gradient's own direction: the slope is its length.
      double length = 0;
      for (const float value : gradient) length += static_cast<double>(value) * value;
      length = std::sqrt(length);
      ASSERT_GT(length, 1e-2) << spec.name;
      const auto loss_at = [&](double distance) {
        for (std::size_t i = 0; i < before.size(); ++i) place[i] = before[i] + static_cast<float>(distance * gradient[i] / length);
        model.refresh_copies();
        return model.loop().evaluate(model.context(), tiny_microbatches, tiny_batches()).mean().total;
      };
      const double step = 3e-3, slope = (loss_at(step) - loss_at(-step)) / (2 * step);
      loss_at(0);
      EXPECT_NEAR(slope, length, 1e-2 * length) << spec.name << ", layout " << layout;
    }
  }
}

TEST(Streams, CutsKeepTheBits) {
  for (const bool tied : {false, true}) {
    for (const auto compute : {kernels::DType::f32, kernels::DType::bf16}) {
      struct Outcome {
        double total = 0, evaluated = 0;
        std::vector<std::uint32_t> gradients;
        bool operator==(const Outcome&) const = default;
      };
      const auto run = [&](LoopOptions options) {
        options.compute = compute;
        Model model(with_streams(tied), options);
        model.initialise(7);
        const double evaluated = model.loop().evaluate(model.context(), tiny_microbatches, tiny_batches()).mean().total;
        const auto sums = model.loop().accumulate(model.context(), tiny_microbatches, tiny_targets, tiny_batches());
        return Outcome{sums.mean().total, evaluated, model.gradient_bits()};
      };
      const Outcome whole = run(tiny_loop());
      EXPECT_EQ(whole.total, whole.evaluated);
      for (const char* layout : {"E t*2 | t*2 H", "E t | t | t | t H", "E | t | t*3 | H", "E t*2 | | t | t | | H", "E | | t*4 H"}) {
        for (const auto mode : {runtime::BackwardMode::fused, runtime::BackwardMode::split}) {
          for (const char* policy : {"none", "full"}) {
            LoopOptions cut = tiny_loop();
            cut.layout = layout;
            cut.mode = mode;
            cut.rematerialize = policy;
            EXPECT_TRUE(run(cut) == whole) << layout << ", " << policy << ", tied " << tied << ", split " << static_cast<int>(mode);
          }
        }
      }
    }
  }
}

/// A family of two layers whose streams and whose layer's results a test gives.
class GivenStreams final : public ModelFamily {
 public:
  std::vector<std::vector<StreamSpec>> before;  // by layer, and before the head
  std::function<Streams(runtime::ProgramBuilder&, runtime::ValueId)> after_layer_0;

  [[nodiscard]] const FamilyTraits& traits() const override { return traits_; }
  [[nodiscard]] ModelSpec resolve(const ModelConfig&) const override {
    ModelSpec model;
    model.width = 8;
    model.layers.resize(2);
    return model;
  }
  [[nodiscard]] std::vector<StreamSpec> streams(const ModelSpec&, int index) const override {
    return before.at(static_cast<std::size_t>(index));
  }
  [[nodiscard]] Streams embed(runtime::ProgramBuilder& builder, const ModelSpec&) const override {
    return runtime::embedding(builder, builder.batch("tokens"), builder.parameter("table", {11, 8}), "embedding");
  }
  [[nodiscard]] Streams layer(runtime::ProgramBuilder& builder, const ModelSpec&, int index, const Streams& x) const override {
    return index == 0 ? after_layer_0(builder, x.at("hidden")) : x;
  }
  [[nodiscard]] runtime::ValueId head(runtime::ProgramBuilder& builder, const ModelSpec&, const Streams& x, bool) const override {
    return runtime::linear_cross_entropy(builder, x.at("hidden"), builder.parameter("head", {11, 8}), builder.batch("targets"), {}, "loss");
  }
  [[nodiscard]] bool recognises(runtime::JsonReader&) const override { return false; }
  void read_config(runtime::JsonReader&, ConfigFile&) const override {}
  [[nodiscard]] runtime::OrderedJson config_json(const ConfigFile&, std::string_view) const override { return {}; }

  /// The one of this process, with one stream.
  static GivenStreams& get() {
    static GivenStreams family;
    static const bool added = (add_model_family(family), true);
    static_cast<void>(added);
    family.before.assign(3, {{.axes = {8}}});
    family.after_layer_0 = [](runtime::ProgramBuilder&, runtime::ValueId x) { return Streams(x); };
    return family;
  }
  static runtime::ForwardProgram build(const StageLayout& stage = {true, 0, 2, true}) {
    return build_stage({.family = "given_streams", .layers = 2}, stage, {kernels::DType::f32, 1, 4});
  }

 private:
  FamilyTraits traits_{.name = "given_streams"};
};

TEST(Streams, ThatDoNotFitAreNamed) {
  const auto expect = [](const std::vector<std::string>& words) {
    tests::expect_error([] { GivenStreams::build(); }, ExitCode::internal, words);
  };
  auto& family = GivenStreams::get();
  EXPECT_NO_THROW(GivenStreams::build());
  family.before[1] = {{.axes = {8}}, {.name = "keys", .axes = {4}}};
  family.before[2] = family.before[1];
  expect({"layer 0 does not hand on 'keys'", "layer 1 expects it as f32 [4, 4]"});
  family.after_layer_0 = [](runtime::ProgramBuilder&, runtime::ValueId x) {
    Streams out(x);
    out.set("keys", x);
    return out;
  };
  expect({"layer 0 hands on 'keys' as f32 [4, 8]", "layer 1 expects f32 [4, 4]"});
  family.before[1] = family.before[2] = {{.axes = {8}}};
  expect({"layer 0 hands on 'keys'", "which layer 1 does not expect"});
  GivenStreams::get().before[2] = {{.axes = {8}}, {.name = "late", .axes = {8}}};
  expect({"layer 1 does not hand on 'late'", "the head expects"});
  GivenStreams::get().before[1] = {{.axes = {8}}, {.axes = {8}}};
  expect({"given_streams: two streams before layer 1 are named 'hidden'"});
  GivenStreams::get().before[0] = {{.name = "ids", .axes = {}, .dtype = kernels::DType::i32}};
  expect({"given_streams: no stream before layer 0 has a gradient"});
}

TEST(Streams, ALayerIsDividedWhereTheResidualStreamIsAlone) {
  auto& family = GivenStreams::get();
  const StageLayout divided{.embedding = true, .layer_count = 2, .ends_with_attention = true};
  const auto expect = [&](std::vector<std::string> words) {
    words.emplace_back("expected pipeline.layout with ");
    tests::expect_error([&] { GivenStreams::build(divided); }, ExitCode::model, words);
  };
  expect({"given_streams: its layers are not divided"});
  family.before[1] = {{.axes = {8}}, {.name = "keys", .axes = {4}}};
  family.after_layer_0 = [](runtime::ProgramBuilder& builder, runtime::ValueId x) {
    Streams out(x);
    out.set("keys", runtime::linear(builder, x, builder.parameter("keys", {4, 8}), "keys"));
    return out;
  };
  expect({"given_streams: layer 1 receives or hands on keys beside the residual stream"});
}

/// The gradients of each stream are summed by themselves, in the whole model too: else a cut between the layers would change the order.
TEST(Streams, AValueThatIsTwoOfThemIsCopiedWhereverTheModelIsCut) {
  auto& family = GivenStreams::get();
  family.before[1] = {{.axes = {8}}, {.name = "twin", .axes = {8}}};
  family.before[2] = family.before[1];
  family.after_layer_0 = [](runtime::ProgramBuilder&, runtime::ValueId x) {
    Streams out(x);
    out.set("twin", x);
    return out;
  };
  for (const StageLayout& stage : {StageLayout{true, 0, 2, true}, StageLayout{true, 0, 1, false}}) {
    const auto program = GivenStreams::build(stage);
    const auto copies = std::ranges::count_if(program.operations, [](const auto& operation) { return operation.rule->name() == "copy"; });
    EXPECT_EQ(copies, 1);
    EXPECT_EQ(program.operations[1].name, "layers.0.stream.twin");
  }
}

}  // namespace
}  // namespace millrace::layers::testing
