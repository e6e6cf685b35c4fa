#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "actors/pipeline_plan.hpp"
#include "cluster/cluster_config.hpp"
#include "layers/model_config.hpp"
#include "runtime/train_config.hpp"

namespace millrace::actors {

class Pipeline;

/// A resolved run description, as the rooms know it; tools/ fills it from configs/.
struct RunSettings {
  std::string directory;   // empty: nothing is written
  std::string model_from;  // Hugging Face folder with the initial weights; empty: from the seed
  layers::ModelConfig model;
  runtime::DataConfig data;
  runtime::TrainConfig train;
  runtime::EvaluateConfig evaluate;
  runtime::PipelineConfig pipeline;
  runtime::CheckpointConfig checkpoint;
  runtime::RematerializeConfig rematerialize;
  runtime::SampleConfig sample;
  cluster::ClusterConfig cluster;
  std::string text;   // every key and value: kept in the run directory, compared between processes
  std::string build;  // what was built from what
  bool terminal = false;
  /// The identity keys and their values, once the threads are known.
  std::function<std::map<std::string, std::string>(std::int64_t threads)> identity;
  /// Throws Error(checkpoint) naming each identity key that differs.
  std::function<void(const std::map<std::string, std::string>& recorded, const std::map<std::string, std::string>& current,
                     const std::string& checkpoint)>
      check_identity;

  /// Called in every process when its ranks have stopped and before they go: what was traced, counted and planned. May be empty.
  std::function<void(Pipeline& pipeline)> examine;

  [[nodiscard]] PlanRequest plan_request() const { return {model, train, pipeline, rematerialize}; }
};

}  // namespace millrace::actors
