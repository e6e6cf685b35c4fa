#pragma once

#include <string>

#include "cluster/cluster_config.hpp"
#include "layers/model_config.hpp"
#include "runtime/train_config.hpp"

namespace millrace::configs {

/// One run, wholly described. configs/load.hpp makes it; nothing else reads a file of keys.
struct RunConfig {
  std::string directory;     // run.directory: checkpoints, metrics, traces; empty: nothing is written
  std::string model_preset;  // model.preset: a file of configs/models, or a path; empty: none
  std::string model_from;    // model.from: a Hugging Face folder; its weights are the initial ones; empty: none
  std::string device = "cpu";
  std::string fault;  // debug.fault: a fault to inject, for tests; empty: none
  layers::ModelConfig model;
  runtime::DataConfig data;
  runtime::TrainConfig train;
  runtime::EvaluateConfig evaluate;
  runtime::PipelineConfig pipeline;
  runtime::CheckpointConfig checkpoint;
  runtime::RematerializeConfig rematerialize;
  runtime::SampleConfig sample;
  cluster::ClusterConfig cluster;
};

}  // namespace millrace::configs
