// SPDX-License-Identifier: Apache-2.0
#include "model/tiny_model_testing.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "base/check.h"

namespace skein::model {
namespace {

void Append(std::vector<std::byte>& bytes, const void* data, std::size_t count) {
  const auto* begin = static_cast<const std::byte*>(data);
  bytes.insert(bytes.end(), begin, begin + count);
}

// The double of a positive normal half-precision number.
double OfHalf(std::uint16_t bits) {
  const double magnitude = std::ldexp(1.0 + (bits & 0x3ff) / 1024.0, ((bits >> 10) & 0x1f) - 15);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

}  // namespace

std::uint32_t TinyModel::Random::Next() {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return static_cast<std::uint32_t>(state >> 33);
}

double TinyModel::Random::Uniform(double low, double high) { return low + (high - low) * Next() / 2147483648.0; }

TinyModel::TinyModel(const TinyShape& shape) {
  config_.name = "tiny";
  config_.architecture = "llama";
  config_.layers = shape.layers;
  config_.hidden = shape.hidden;
  config_.heads = shape.heads;
  config_.kv_heads = shape.kv_heads;
  config_.head_dim = shape.head_dim;
  config_.feed_forward = shape.feed_forward;
  config_.vocabulary = shape.vocabulary;
  config_.context = 1024;
  config_.tied_embedding = shape.tied;
  config_.interleaved_rope_rows = shape.interleaved;
  config_.rope.dimensions = shape.rotated > 0 ? shape.rotated : shape.head_dim;
  path_ = "tiny";

  Random random{shape.seed * 77777 + 5};
  const DType type = shape.matrices;
  const int q = shape.heads * shape.head_dim, kv = shape.kv_heads * shape.head_dim;
  const double in = 1.8 / std::sqrt(shape.hidden);
  Add("embedding", shape.vocabulary, shape.hidden, type, 1.0, random);
  for (int layer = 0; layer < shape.layers; ++layer) {
    const std::string at = "layers." + std::to_string(layer) + ".";
    Add(at + "attention_norm", 1, shape.hidden, DType::kF32, 1.5, random);
    Add(at + "q", q, shape.hidden, type, 2 * in, random);
    Add(at + "k", kv, shape.hidden, type, 2 * in, random);
    Add(at + "v", kv, shape.hidden, shape.mixed ? shape.v_matrix : type, in, random);
    Add(at + "o", shape.hidden, q, type, in, random);
    Add(at + "feed_forward_norm", 1, shape.hidden, DType::kF32, 1.5, random);
    Add(at + "gate", shape.feed_forward, shape.hidden, type, in, random);
    Add(at + "up", shape.feed_forward, shape.hidden, shape.mixed ? shape.up_matrix : type, in, random);
    Add(at + "down", shape.hidden, shape.feed_forward, type, in, random);
    if (!shape.biases) continue;
    for (const auto& [name, count] : {std::pair{"q_bias", q}, {"k_bias", kv}, {"v_bias", kv}, {"o_bias", shape.hidden},
                                      {"gate_bias", shape.feed_forward}, {"up_bias", shape.feed_forward}, {"down_bias", shape.hidden}}) {
      Add(at + name, 1, count, DType::kF32, 0.5, random);
    }
  }
  Add("output_norm", 1, shape.hidden, DType::kF32, 1.5, random);
  if (!shape.tied) Add("head", shape.vocabulary, shape.hidden, type, 2 * in, random);

  const int descriptor = memfd_create("tiny", 0);
  SKEIN_CHECK(descriptor >= 0);
  SKEIN_CHECK(write(descriptor, bytes_.data(), bytes_.size()) == static_cast<ssize_t>(bytes_.size()));
  descriptors_.push_back(descriptor);
}

TinyModel::~TinyModel() { close(descriptors_.front()); }

// Random values of about `size` at most, as the type can have them.
void TinyModel::Add(const std::string& name, int rows, int columns, DType type, double size, Random& random) {
  formats::TensorInfo tensor;
  tensor.name = tensor.file_name = name;
  tensor.shape = {static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(columns)};
  if (rows == 1) tensor.shape.erase(tensor.shape.begin());
  tensor.dtype = type;
  tensor.offset = bytes_.size();
  std::vector<double>& values = values_[name];
  const int exponent = std::ilogb(size);
  const auto half = [&](int power) {
    return static_cast<std::uint16_t>((power + 15) << 10 | (random.Next() & 0x3ff));
  };
  for (int done = 0; done < rows * columns;) {
    switch (type) {
      case DType::kF32: {
        const auto value = static_cast<float>(random.Uniform(-size, size));
        Append(bytes_, &value, 4);
        values.push_back(static_cast<double>(value));
        done += 1;
        break;
      }
      case DType::kBF16: {
        const auto bits = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(random.Uniform(-size, size))) >> 16);
        Append(bytes_, &bits, 2);
        values.push_back(static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16)));
        done += 1;
        break;
      }
      case DType::kF16: {
        const auto bits = static_cast<std::uint16_t>(half(exponent - static_cast<int>(random.Next() % 4) - 1) | (random.Next() & 1) << 15);
        Append(bytes_, &bits, 2);
        values.push_back(OfHalf(bits));
        done += 1;
        break;
      }
      case DType::kQ8_0: {
        const std::uint16_t scale = half(exponent - 8);
        Append(bytes_, &scale, 2);
        for (int i = 0; i < 32; ++i) {
          const auto q = static_cast<std::int8_t>(random.Next());
          Append(bytes_, &q, 1);
          values.push_back(q * OfHalf(scale));
        }
        done += 32;
        break;
      }
      case DType::kQ4_0:
      case DType::kQ4_1: {
        const bool has_minimum = type == DType::kQ4_1;
        const std::uint16_t scale = half(exponent - 4);
        const auto minimum = static_cast<std::uint16_t>(half(exponent - 1) | 0x8000);
        Append(bytes_, &scale, 2);
        if (has_minimum) Append(bytes_, &minimum, 2);
        std::uint8_t q[16];
        for (auto& pair : q) pair = static_cast<std::uint8_t>(random.Next());
        Append(bytes_, q, 16);
        for (int i = 0; i < 32; ++i) {
          const int nibble = i < 16 ? q[i] & 15 : q[i - 16] >> 4;
          values.push_back(has_minimum ? nibble * OfHalf(scale) + OfHalf(minimum) : (nibble - 8) * OfHalf(scale));
        }
        done += 32;
        break;
      }
    }
  }
  tensor.bytes = bytes_.size() - tensor.offset;
  tensors_.push_back(std::move(tensor));
}

std::vector<double> TinyModel::Multiply(const std::string& name, const std::vector<double>& x, int outputs) const {
  const std::vector<double>& w = values_.at(name);
  std::vector<double> y(static_cast<std::size_t>(outputs));
  for (std::size_t i = 0; i < y.size(); ++i) {
    for (std::size_t j = 0; j < x.size(); ++j) y[i] += w[i * x.size() + j] * x[j];
  }
  return y;
}

std::vector<double> TinyModel::Norm(const std::string& name, const std::vector<double>& x) const {
  double sum = 0;
  for (const double value : x) sum += value * value;
  const double factor = 1 / std::sqrt(sum / static_cast<double>(x.size()) + static_cast<double>(config_.norm_epsilon));
  std::vector<double> y = values_.at(name);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] *= x[i] * factor;
  return y;
}

void TinyModel::AddBias(const std::string& name, std::vector<double>& x) const {
  const auto found = values_.find(name);
  if (found == values_.end()) return;
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += found->second[i];
}

// In the order of the file: pairs (2i, 2i + 1) when rows are interleaved, (i, i + rotated / 2) otherwise.
void TinyModel::Rotate(std::vector<double>& heads, int count, int position) const {
  const int d = config_.head_dim, rotated = config_.rope.dimensions, half = rotated / 2;
  for (int head = 0; head < count; ++head) {
    for (int i = 0; i < half; ++i) {
      const double angle = position * std::pow(config_.rope.base, -2.0 * i / rotated);
      double& a = heads[static_cast<std::size_t>(head * d + (config_.interleaved_rope_rows ? 2 * i : i))];
      double& b = heads[static_cast<std::size_t>(head * d + (config_.interleaved_rope_rows ? 2 * i + 1 : i + half))];
      const double x = a, y = b;
      a = x * std::cos(angle) - y * std::sin(angle);
      b = x * std::sin(angle) + y * std::cos(angle);
    }
  }
}

std::vector<double> TinyModel::Forward(const std::vector<TokenId>& tokens) const {
  const int d = config_.head_dim, group = config_.heads / config_.kv_heads;
  const auto width = static_cast<std::size_t>(config_.hidden);
  std::vector<std::vector<double>> x;
  for (const TokenId token : tokens) {
    const auto begin = values_.at("embedding").begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(token) * width);
    x.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(width));
  }
  for (int layer = 0; layer < config_.layers; ++layer) {
    const std::string at = "layers." + std::to_string(layer) + ".";
    std::vector<std::vector<double>> keys, values;
    for (std::size_t t = 0; t < x.size(); ++t) {
      const std::vector<double> normed = Norm(at + "attention_norm", x[t]);
      std::vector<double> q = Multiply(at + "q", normed, config_.heads * d);
      std::vector<double> k = Multiply(at + "k", normed, config_.kv_heads * d);
      std::vector<double> v = Multiply(at + "v", normed, config_.kv_heads * d);
      AddBias(at + "q_bias", q);
      AddBias(at + "k_bias", k);
      AddBias(at + "v_bias", v);
      Rotate(q, config_.heads, static_cast<int>(t));
      Rotate(k, config_.kv_heads, static_cast<int>(t));
      keys.push_back(k);
      values.push_back(v);
      std::vector<double> attended(q.size());
      for (int head = 0; head < config_.heads; ++head) {
        std::vector<double> weight;
        double sum = 0;
        for (const std::vector<double>& key : keys) {
          double score = 0;
          for (int i = 0; i < d; ++i) {
            score += q[static_cast<std::size_t>(head * d + i)] * key[static_cast<std::size_t>(head / group * d + i)];
          }
          weight.push_back(std::exp(score / std::sqrt(d)));
          sum += weight.back();
        }
        for (std::size_t s = 0; s < weight.size(); ++s) {
          for (int i = 0; i < d; ++i) {
            attended[static_cast<std::size_t>(head * d + i)] +=
                weight[s] / sum * values[s][static_cast<std::size_t>(head / group * d + i)];
          }
        }
      }
      std::vector<double> o = Multiply(at + "o", attended, config_.hidden);
      AddBias(at + "o_bias", o);
      for (std::size_t i = 0; i < width; ++i) x[t][i] += o[i];
      const std::vector<double> second = Norm(at + "feed_forward_norm", x[t]);
      std::vector<double> gate = Multiply(at + "gate", second, config_.feed_forward);
      std::vector<double> up = Multiply(at + "up", second, config_.feed_forward);
      AddBias(at + "gate_bias", gate);
      AddBias(at + "up_bias", up);
      for (std::size_t i = 0; i < gate.size(); ++i) gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
      std::vector<double> down = Multiply(at + "down", gate, config_.hidden);
      AddBias(at + "down_bias", down);
      for (std::size_t i = 0; i < width; ++i) x[t][i] += down[i];
    }
  }
  std::vector<double> logits;
  for (const std::vector<double>& row : x) {
    const std::vector<double> out = Multiply(config_.tied_embedding ? "embedding" : "head", Norm("output_norm", row), config_.vocabulary);
    logits.insert(logits.end(), out.begin(), out.end());
  }
  return logits;
}

std::vector<BlockId> ScatteredBlocks(std::uint32_t count, std::uint32_t total) {
  std::vector<BlockId> blocks;
  for (std::uint32_t b = 0; b < total; ++b) blocks.push_back({b});
  std::mt19937 random(total);
  std::shuffle(blocks.begin(), blocks.end(), random);
  blocks.resize(count);
  return blocks;
}

}  // namespace skein::model
