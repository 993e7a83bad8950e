// SPDX-License-Identifier: Apache-2.0
//
// If these fail, clients compare vectors that are not of length 1, or decode other numbers than the model gave.
#include "server/openai/embedding.h"

#include <gtest/gtest.h>

#include <cmath>

#include <boost/json.hpp>

namespace skein::server {
namespace {

EmbeddingRequest Asked(bool base64) {
  EmbeddingRequest request;
  request.model = "tiny";
  request.inputs = {{1, 2, 3}, {4}};
  request.base64 = base64;
  return request;
}

TEST(Embedding, VectorsHaveLengthOneAndAreInOrder) {
  const boost::json::value body = boost::json::parse(EmbeddingBody(Asked(false), {{3.0F, 4.0F}, {0.0F, 0.0F}}));
  EXPECT_NEAR(body.at_pointer("/data/0/embedding/0").to_number<double>(), 0.6, 1e-7);
  EXPECT_NEAR(body.at_pointer("/data/0/embedding/1").to_number<double>(), 0.8, 1e-7);
  EXPECT_EQ(body.at_pointer("/data/1/embedding/0").to_number<double>(), 0.0);
  EXPECT_EQ(body.at_pointer("/data/1/index").to_number<int>(), 1);
  EXPECT_EQ(body.at_pointer("/usage/prompt_tokens").to_number<int>(), 4);
  EXPECT_EQ(body.at_pointer("/usage/total_tokens").to_number<int>(), 4);
}

// 1.0F is 00 00 80 3f; the texts are by hand from RFC 4648.
TEST(Embedding, Base64IsLittleEndianFloats) {
  const boost::json::value body = boost::json::parse(EmbeddingBody(Asked(true), {{1.0F}, {0.0F, 0.0F, 1.0F}}));
  EXPECT_EQ(body.at_pointer("/data/0/embedding").as_string(), "AACAPw==");
  EXPECT_EQ(body.at_pointer("/data/1/embedding").as_string(), "AAAAAAAAAAAAAIA/");
}

}  // namespace
}  // namespace skein::server
