#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "layers/formats/config_file.hpp"
#include "layers/formats/model_folder.hpp"
#include "runtime/io/safetensors.hpp"
#include "tests/layers/model_fixture.hpp"
#include "tests/support/temporary_folder.hpp"

namespace millrace::layers::testing {
namespace {

/// A kernel [D, N h] with each head's even features before its odd ones, so that neighbouring pairs become pairs of the two
/// halves.
std::vector<float> halves_from_neighbours(const std::vector<float>& kernel, std::int64_t head_dim) {
  std::vector<float> result(kernel.size());
  const auto width = static_cast<std::size_t>(head_dim), half = width / 2;
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    const std::size_t feature = i % width;
    result[i - feature + (feature % 2) * half + feature / 2] = kernel[i];
  }
  return result;
}

std::vector<float> logits_of(const ModelConfig& config, const std::string& folder, const runtime::SafetensorsFile& golden) {
  LoopOptions options;
  options.rows = 1;
  options.sequence = 16;
  Model model(config, options);
  model.load(folder);
  auto ids = read_ids(golden, "input_ids");
  ids.resize(16);
  return model.logits(rows_of(ids, 1, 16));
}

/// Queries and keys that are rotated as neighbouring pairs, unscaled, give the same scores as queries and keys whose features are
/// sorted into halves and rotated as halves.
TEST(MaxTextRope, WithoutItsScaleIsThePlainRotationOfNeighbours) {
  const std::string folder = golden_folder("maxtext_llama31_rope");
  std::ifstream stream(folder + "/config.json");
  auto json = nlohmann::json::parse(stream);
  const ModelConfig scaled = parse_config_file(json.dump(), "config.json").model;
  json["rope_use_scale"] = false;
  const ConfigFile file = parse_config_file(json.dump(), "config.json");
  const ModelConfig again = parse_config_file(config_file_text(file, "float32"), "again").model;
  EXPECT_EQ(again, file.model);
  EXPECT_NE(again, scaled);

  ModelConfig halves = file.model;
  halves.rope_interleaved = false;
  const auto weights = open_weights(folder, file.model);
  const tests::TemporaryFolder sorted;
  std::vector<float> values;
  export_model_folder(sorted.path().string(), {halves}, kernels::DType::f32, [&](const ParameterSpec& spec) {
    values.resize(static_cast<std::size_t>(spec.shape.elements()));
    weights->read(spec, values);
    const bool turned = spec.name.ends_with(".query.kernel") || spec.name.ends_with(".key.kernel");
    if (turned) values = halves_from_neighbours(values, halves.head_dim);
    return std::span<const float>(values);
  });

  const runtime::SafetensorsFile golden(folder + "/golden.safetensors");
  const auto found = logits_of(file.model, folder, golden);
  EXPECT_LE(largest_difference(found, logits_of(halves, sorted.path().string(), golden)), 1e-5 * largest(found));
  EXPECT_GT(largest_difference(found, logits_of(scaled, folder, golden)), 1e-3 * largest(found));
}

}  // namespace
}  // namespace millrace::layers::testing
