"""ChatOpenAI, pointed at the server, is a chat model as LangChain wants one."""

import os

import pytest
from langchain_openai import ChatOpenAI
from langchain_tests.integration_tests import ChatModelIntegrationTests

DETAILS = ["audio_input", "audio_output", "reasoning_output", "cache_read_input"]


class TestChatModel(ChatModelIntegrationTests):
    """Structured output by `response_format`, which is ChatOpenAI's own choice."""

    supports_image_inputs = True
    supports_image_urls = True
    supports_image_tool_message = True
    supports_pdf_inputs = True
    supports_pdf_tool_message = True
    supports_audio_inputs = True
    supports_anthropic_inputs = True
    supports_json_mode = True
    model_override_value = "another"
    supported_usage_metadata_details = {"invoke": DETAILS, "stream": DETAILS}

    @property
    def chat_model_class(self):
        return ChatOpenAI

    @property
    def chat_model_params(self):
        return {
            "base_url": os.environ["TURNWRIGHT_BASE_URL"],
            "api_key": os.environ["TURNWRIGHT_KEY"],
            "model": "any",
            "stream_usage": True,
            "max_retries": 0,
        }

    def _counted(self, *, stream):
        model = self.chat_model_class(**self.chat_model_params)
        if not stream:
            return model.invoke("Please count apart.")
        whole = None
        for chunk in model.stream("Please count apart."):
            whole = chunk if whole is None else whole + chunk
        return whole

    def invoke_with_audio_input(self, *, stream=False):
        return self._counted(stream=stream)

    def invoke_with_audio_output(self, *, stream=False):
        return self._counted(stream=stream)

    def invoke_with_reasoning_output(self, *, stream=False):
        return self._counted(stream=stream)

    def invoke_with_cache_read_input(self, *, stream=False):
        return self._counted(stream=stream)

    @pytest.mark.parametrize("stream", [False, True])
    def test_usage_is_the_models_own(self, stream):
        """The standard tests want numbers; these are the right ones."""
        usage = self._counted(stream=stream).usage_metadata
        assert (usage["input_tokens"], usage["output_tokens"]) == (20, 10)
        assert usage["total_tokens"] == 30
        assert usage["input_token_details"] == {"audio": 3, "cache_read": 4}
        assert usage["output_token_details"] == {"audio": 2, "reasoning": 5}


class TestByCalls(TestChatModel):
    """Structured output by a call."""

    structured_output_kwargs = {"method": "function_calling"}
