"""Chat templates in the styles of published models, written for the tests, and templates that
attack."""

STYLES = {
    "chatml": "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    "chatml with a system message": """{%- if messages[0].role != 'system' %}
    {{- '<|im_start|>system\nBe kind.<|im_end|>\n' }}
{%- endif %}
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %}
""",
    "headers": "{{ bos_token }}{% for m in messages %}{% set text = '<|start|>' + m.role + '<|end|>\n\n' + m.content | trim + '<|eot|>' %}"
    "{{ text }}{% endfor %}{% if add_generation_prompt %}{{ '<|start|>assistant<|end|>\n\n' }}{% endif %}",
    "instructions": """{% if messages[0]['role'] == 'system' %}{% set said = messages[1:] %}{% set system = messages[0]['content'] %}
{% else %}{% set said = messages %}{% set system = false %}{% endif %}
{% for m in said %}
{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}
{% if loop.index0 == 0 and system != false %}{% set text = '<<SYS>>\n' + system + '\n<</SYS>>\n\n' + m['content'] %}
{% else %}{% set text = m['content'] %}{% endif %}
{% if m['role'] == 'user' %}{{ bos_token + '[INST] ' + text.strip() + ' [/INST]' }}
{% else %}{{ ' ' + text.strip() + ' ' + eos_token }}{% endif %}
{% endfor %}""",
    "instructions with one begin": "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]"
    "{% elif m.role == 'assistant' %}{{ m.content }}{{ eos_token }}{% else %}{{ raise_exception('only user and assistant') }}{% endif %}{% endfor %}",
    "turns": "{{ bos_token }}{% if messages[0].role == 'system' %}{{ raise_exception('no system message') }}{% endif %}"
    "{% for m in messages %}{% if m.role == 'assistant' %}{% set role = 'model' %}{% else %}{% set role = m.role %}{% endif %}"
    "{{ '<turn>' + role + '\n' + m.content | trim + '</turn>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<turn>model\n' }}{% endif %}",
    "bars": """{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>\n' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>\n' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>\n'  + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}""",
    "names": "{% for m in messages %}{% if m.role == 'system' %}{{ m.content + '\n\n' }}{% elif m.role == 'user' %}{{ 'USER: ' + m.content + '\n' }}"
    "{% else %}{{ 'ASSISTANT: ' + m.content + eos_token + '\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}",
    "headings": """{{ bos_token }}{%- for m in messages %}
{%- if m.role == 'user' %}
### Instruction:
{{ m.content }}

{% elif m.role == 'assistant' %}
### Response:
{{ m.content }}{{ eos_token }}

{% endif %}{% endfor %}{% if add_generation_prompt %}### Response:
{% endif %}""",
    "generation": "{% for m in messages %}{% if m.role == 'assistant' %}<|assistant|>{% generation %}{{ m.content + eos_token }}{% endgeneration %}"
    "{% else %}{{ '<|' + m.role + '|>' + m.content }}{% endif %}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}",
    "macro, namespace, JSON": """{%- macro shown(m) -%}{{ m.content | tojson }}{%- endmacro -%}
{%- set ns = namespace(count=0) -%}
{%- for m in messages if m.content -%}
{%- set ns.count = ns.count + 1 -%}
{{- '<|im_start|>' ~ m.role ~ ' ' ~ ns.count ~ '\n' ~ shown(m) ~ '<|im_end|>\n' -}}
{%- endfor -%}
{{- '<|im_start|>assistant ' ~ (ns.count + 1) ~ '\n' if add_generation_prompt -}}""",
    "break and date": "{% for m in messages %}{% if loop.index > 9 %}{% break %}{% endif %}{{ m.role | upper }}, {{ strftime_now('%Y') }}: {{ m.content }}</s>"
    "{% endfor %}{% if add_generation_prompt %}ASSISTANT, {{ strftime_now('%Y') }}: {% endif %}",
}
"""Templates by style."""

_LOOPS = [
    "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
    "{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
    "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "{% for a in [[[[[]]]]] recursive %}{{ loop([[a]]) }}{% endfor %}",
    "{% for a in cycler(1, 2).next.__self__ %}{% endfor %}",
    "{{ lipsum(n=100000) }}",
    "{{ lipsum(n=1, min=10**7, max=10**7 + 1) }}",
    "{% set ns = namespace(x=[]) %}{% for i in range(40) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
]
_STRINGS = [
    "{{ 'a' * 10**9 }}",
    "{{ 'a' * 10**12 }}",
    "{{ ('a' * 10**6) * 10**6 }}",
    "{{ 10**9 * 'ab' }}",
    "{{ ['a'] * 10**9 }}",
    "{{ 'a'.ljust(10**9) }}",
    "{{ 'a'.center(10**10) }}",
    "{{ 'a' | center(10**9) }}",
    "{{ '%1000000000d' % 1 }}",
    "{{ '{:1000000000}'.format(1) }}",
    "{{ '%1000000000s' | format('a') }}",
    "{{ ('a' * 10**5).replace('a', 'b' * 10**5) }}",
    "{{ ('a' * 10**5) | replace('a', 'b' * 10**5) }}",
    "{{ 'a\n' * 10**5 | indent(10**6) }}",
    "{{ messages | tojson(indent=10**9) }}",
    "{{ '\t'.expandtabs(10**9) }}",
    "{{ 'a'.zfill(10**9) }}",
    "{% set ns = namespace(s='a' * 64) %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}{{ ns.s }}",
    "{% for a in range(100000) %}{{ 'a' * 10**5 }}{% endfor %}",
    "{{ 'a' * (1 + 2**22) }}",
    "{% set x %}{% for a in range(100000) %}{{ 'a' * 10000 }}{% endfor %}{% endset %}{{ x }}",
]
_RANGES = [
    "{{ range(10**10) | list }}",
    "{{ range(0, 10**10, 1) | length }}",
    "{{ 9**9**9 }}",
    "{{ 2**(10**9) }}",
    "{{ (2**(10**6)) | string }}",
    "{{ ('9' * 10**6) | int }}",
    "{{ 1 / 0 }}",
    "{{ [[]] * 10**9 }}",
]
_ESCAPES = [
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ messages.__class__.__base__.__subclasses__() }}",
    "{{ ''['__class__'] }}",
    "{{ '' | attr('__class__') }}",
    "{{ '{0.__class__.__init__.__globals__}'.format(messages) }}",
    "{{ '{m.__class__}'.format_map({'m': messages}) }}",
    "{{ cycler.__init__.__globals__.os.popen('touch CALLED').read() }}",
    "{{ lipsum.__globals__['os'].system('touch CALLED') }}",
    "{{ self._TemplateReference__context.environment }}",
    "{{ raise_exception.__globals__ }}",
    "{{ strftime_now.__globals__['sys'].modules }}",
    "{{ tojson.__globals__ }}",
    "{{ namespace.__init__.__globals__ }}",
    "{{ joiner.__init__.__globals__.__builtins__.open('CALLED', 'w') }}",
    "{{ config }}{{ request }}{{ get_flashed_messages.__globals__ }}",
    "{% include 'CALLED' %}",
    "{% import 'os' as os %}{{ os.system('touch CALLED') }}",
    "{% extends '/etc/passwd' %}",
    "{% do messages.append(1) %}",
    "{{ messages.append(1) }}",
    "{{ messages | map(attribute='__class__') | list }}",
    "{{ messages | selectattr('__class__') | list }}",
    "{{ messages | sort(attribute='__class__') }}",
    "{% set x = ''.format %}{{ x.__self__ }}",
    "{{ (messages | first).keys.__self__.__class__ }}",
    "{{ {}.update.__class__.__call__ }}",
    "{{ self.__init__.__globals__ }}",
    "{{ loop.__class__ }}",
    "{% for a in [1] %}{{ loop.__init__.__globals__ }}{% endfor %}",
    "{% macro f() %}{% endmacro %}{{ f.__init__.__globals__ }}",
    "{% macro f() %}{{ caller.__class__ }}{% endmacro %}{% call f() %}{% endcall %}",
    "{{ messages[0].update({'role': 'x'}) }}",
    "{{ messages.clear() }}",
    "{{ messages[0]['content'].encode.__self__.__class__.__mro__ }}",
    "{{ ''.join.__func__ }}",
    "{{ 'a'.__reduce_ex__(2) }}",
    "{{ (1).__class__.__base__ }}",
    "{{ true.__class__.mro() }}",
    "{{ dict.__base__.__subclasses__() }}",
    "{{ range.__class__ }}",
    "{{ namespace(a=1).__class__ }}",
    "{{ ['a'] | map('attr', '__class__') | list }}",
    "{{ undefined_name.__class__.__init__.__globals__ }}",
]
PAYLOADS = _LOOPS + _STRINGS + _RANGES + _ESCAPES
"""Programs that a template should not be."""
MORE = [
    "{% set ns = namespace(x=[], y=[]) %}{% for i in range(40) %}{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}",
    "{{ ('http://a ' * 10**6) | urlize }}",
    "{{ (['a' * 10**6] * 10**5) | join }}",
    "{% for a in range(99999) %}{% for b in range(99999) %}{{ a * b }}{% endfor %}{% endfor %}",
    "{% for a in range(100000) %}{% set b = range(100000) | list %}{% endfor %}",
    "{% for a in range(100000) %}{{ messages | tojson }}{% endfor %}",
    "{% for a in range(100000) %}{{ range(100000) | sum }}{% endfor %}",
    "{{ range(100000) | map('string') | join | length }}" * 60,
    "{% for a in range(100000) %}{% for b in 'x' * 100000 %}{% endfor %}{% endfor %}",
    "{% set ns = namespace(x=[]) %}{% for i in range(40) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x | tojson }}",
    "{{ ('a' * 40 ~ 'b') | wordwrap(1) }}" * 5000,
    "{{ range(100000) | groupby('real') | list | length }}" * 20,
    "{{ range(100000) | sort(reverse=true) | unique | list | length }}" * 40,
    "{% for a in range(100000) | batch(1) %}{% for b in range(100000) | slice(9) %}{% endfor %}{% endfor %}",
    "{{ ('a\n' * 10**5) | indent(10**5) }}",
    "{{ ('a' * 10**6).join(['b'] * 10**5) }}",
    "{% set ns = namespace(s='a' * 64) %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s }}",
    "{{ ('a' * 10**8) | escape }}",
    "{{ ('<' * 10**7) | escape }}",
    "{{ ('a ' * 10**7) | title }}",
    "{% filter upper %}{% for a in range(100000) %}{{ 'a' * 1000 }}{% endfor %}{% endfilter %}",
    "{{ 10**(10**8) % 7 }}",
    "{{ strftime_now('%Y' * 10**7) }}",
]
"""Others that compute until they are ended."""
