#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "actors/setup/pipeline_plan.hpp"
#include "configs/load.hpp"
#include "configs/presets.hpp"
#include "layers/models/model.hpp"
#include "tests/support/paths.hpp"

namespace millrace::tools {
namespace {

// The published numbers of parameters, without padding of the vocabulary; a tied table counts once.
const std::map<std::string, std::int64_t> kParameters = {
    {"llama2-7b", 6'738'415'616},
    {"llama2-13b", 13'015'864'320},
    {"llama2-70b", 68'976'648'192},
    {"llama3-8b", 8'030'261'248},
    {"llama3-70b", 70'553'706'496},
    {"llama3.1-8b", 8'030'261'248},
    {"llama3.1-70b", 70'553'706'496},
    {"llama3.1-405b", 405'853'388'800},
    {"llama3.2-1b", 1'235'814'400},
    {"llama3.2-3b", 3'212'749'824},
    {"llama3.3-70b", 70'553'706'496},
    {"mistral-7b", 7'241'732'096},
    {"mistral-7b-v0.1", 7'241'732'096},
    {"gemma-2b", 2'506'172'416},
    {"gemma-7b", 8'537'680'896},
    {"gemma2-2b", 2'614'341'888},
    {"gemma2-9b", 9'241'705'984},
    {"gemma2-27b", 27'227'128'320},
    {"gemma3-1b", 999'885'952},
    {"gemma3-4b", 3'880'263'168},
    {"gemma3-12b", 11'766'034'176},
    {"gemma3-27b", 27'009'346'304},
    {"gemma4-31b", 30'697'345'340},
    {"gemma4-26b", 25'233'141'790},
    {"gemma4-e2b", 4'628'569'379},
    {"gemma4-e4b", 7'463'013'418},
    {"qwen2.5-0.5b", 494'032'768},
    {"qwen2.5-1.5b", 1'543'714'304},
    {"qwen2.5-3b", 3'085'938'688},
    {"qwen2.5-7b", 7'615'616'512},
    {"qwen2.5-14b", 14'770'033'664},
    {"qwen2.5-32b", 32'763'876'352},
    {"qwen2.5-72b", 72'706'203'648},
    {"qwen3-0.6b", 596'049'920},
    {"qwen3-1.7b", 1'720'574'976},
    {"qwen3-4b", 4'022'468'096},
    {"qwen3-8b", 8'190'735'360},
    {"qwen3-14b", 14'768'307'200},
    {"qwen3-32b", 32'762'123'264},
    {"mixtral-8x7b", 46'702'792'704},
    {"mixtral-8x22b", 140'630'071'296},
    {"qwen3-30b-a3b", 30'532'122'624},
    {"qwen3-235b-a22b", 235'093'634'560},
    {"qwen3-480b-a35b", 480'154'875'392},
    {"qwen3-next-80b-a3b", 79'674'391'296},
    {"qwen3.5-35b-a3b", 34'660'610'688},
    {"qwen3.5-397b-a17b", 396'346'350'336},
    {"deepseek2-16b", 15'706'484'224},
    {"deepseek2-236b", 235'741'434'880},
    {"deepseek3-671b", 671'026'419'200},
    {"kimi-k2-1t", 1'026'408'232'448},
    {"llama4-17b-16e", 107'769'861'120},
    {"llama4-17b-128e", 400'711'848'960},
    {"deepseek3.2-671b", 671'877'944'064},
    {"olmo3-7b", 7'298'011'136},
    {"olmo3-32b", 32'233'522'176},
    {"gpt-oss-20b", 20'914'757'184},
    {"gpt-oss-120b", 116'829'156'672},
    {"gpt2", 124'439'808},
    {"gpt2-medium", 354'823'168},
    {"gpt2-large", 774'030'080},
    {"gpt2-xl", 1'557'611'200},
    {"llama3-405b", 405'853'388'800},
    {"olmo3-7b-pt", 7'298'011'136},
    {"qwen3-4b-thinking-2507", 4'022'468'096},
    {"gpt3-52k", 52'464},
    {"gpt3-6b", 5'588'736'000},
    {"gpt3-22b", 22'049'107'968},
    {"gpt3-175b", 174'780'997'632},
};
// The weights that compute on one token: all but those of experts that it does not have.
const std::map<std::string, std::int64_t> kActive = {
    {"llama4-17b-16e", 17'172'894'720},   {"llama4-17b-128e", 17'184'691'200}, {"deepseek2-16b", 2'661'150'208},
    {"deepseek2-236b", 21'375'800'320},   {"deepseek3-671b", 37'552'297'472},  {"kimi-k2-1t", 32'861'500'928},
    {"deepseek3.2-671b", 38'403'822'336},
};
const std::set<std::string> kOurOwn = {"bench-32m", "bench-moe-100m", "llama-125m", "quickstart-1m", "tiny"};

layers::ModelConfig preset(const std::string& name) {
  configs::LoadRequest request;
  request.presets = tests::source_path("configs/models");
  request.overrides = {"model.preset=" + name, "data.tokens=x.bin"};
  return configs::load(request).config.model;
}

TEST(ModelPresets, HaveThePublishedParameters) {
  for (const auto& [name, count] : kParameters) EXPECT_EQ(layers::count_parameters(preset(name)), count) << name;
}

TEST(ModelPresets, HaveThePublishedActiveParameters) {
  for (const auto& [name, count] : kActive)
    EXPECT_EQ(layers::parameter_counts(layers::model_parameters(preset(name))).active, count) << name;
}

/// Programs, layout, schedule and memory of every preset. Their weights would not fit on a test machine: planning must not
/// allocate them.
TEST(ModelPresets, BuildTheirPlans) {
  for (const std::string& name : configs::preset_names(tests::source_path("configs/models"))) {
    actors::PlanRequest request;
    request.model = preset(name);
    request.train.batch = 1;
    request.train.sequence = 128;
    request.train.microbatches = 8;
    request.pipeline.ranks = 2;
    const auto plan = actors::make_plan(request);
    std::int64_t count = 0;
    for (const auto& spec : plan.parameters) count += spec.shape.elements();
    EXPECT_EQ(count, layers::count_parameters(request.model)) << name;
  }
}

TEST(ModelPresets, AreAllHere) {
  for (const std::string& name : configs::preset_names(tests::source_path("configs/models")))
    EXPECT_TRUE(kParameters.contains(name) || kOurOwn.contains(name)) << name;
}

}  // namespace
}  // namespace millrace::tools
